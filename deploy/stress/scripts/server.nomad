# The server of the stress test: every transport on one port, metrics on another.
#
#   nomad job run -var image=localhost:5000/tiderace scripts/server.nomad

variable "image" {
  type        = string
  description = "The image that deploy/stress/Dockerfile makes."
}

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where to run."
}

variable "echo_interval" {
  type        = string
  default     = "1s"
  description = "How often each stream gets its own request back."
}

variable "cpu" {
  type        = number
  default     = 4000
  description = "Processor time to reserve, MHz."
}

variable "memory" {
  type        = number
  default     = 4096
  description = "Memory to reserve and at most use, MB."
}

job "rsocket-stress-test-server" {
  datacenters = var.datacenters
  type        = "service"

  group "servers" {
    count = 1

    network {
      port "rsocket" {}
      port "metrics" {}
    }

    # A server that falls over is a result, not something to hide by starting it again.
    restart {
      attempts = 0
      mode     = "fail"
    }

    reschedule {
      attempts  = 0
      unlimited = false
    }

    service {
      name = "rsocket-stress-test-server"
      port = "rsocket"
      tags = ["tcp", "ws", "h2", "ws-h2"]

      check {
        type     = "tcp"
        port     = "rsocket"
        interval = "10s"
        timeout  = "2s"
      }
    }

    service {
      name = "rsocket-stress-test-server-metrics"
      port = "metrics"
      tags = ["prometheus"]

      check {
        type     = "http"
        port     = "metrics"
        path     = "/livez"
        interval = "10s"
        timeout  = "2s"
      }
    }

    task "server" {
      driver = "docker"

      config {
        image = var.image
        args  = ["serve"]

        # The host's network: address translation would be what is measured.
        network_mode = "host"
        ports        = ["rsocket", "metrics"]

        ulimit {
          nofile = "1048576:1048576"
        }
      }

      env {
        TIDERACE_SERVER__LISTEN              = "${NOMAD_ADDR_rsocket},http://${NOMAD_ADDR_metrics}"
        TIDERACE_SERVER__NODE                = "${NOMAD_ALLOC_ID}"
        TIDERACE_MONITORING__METRICS_ACCESS  = "open"
        TIDERACE_RSOCKET__ECHO               = "true"
        TIDERACE_RSOCKET__ECHO_INTERVAL      = "${var.echo_interval}"

        # Without users anybody who reaches the port may do anything: for closed networks only.
        TIDERACE_AUTH__ALLOW_ANONYMOUS       = "true"

        # All clients of one host share its address.
        TIDERACE_LIMITS__CONNECTIONS_PER_IP_MAX = "0"
      }

      resources {
        cpu    = var.cpu
        memory = var.memory
      }
    }
  }
}
