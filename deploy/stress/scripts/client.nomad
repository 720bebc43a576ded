# The load of the stress test: groups of connections, each with streams that are opened one after the other.
#
#   nomad job run -var image=localhost:5000/tiderace -var connections=5000 -var streams=25 \
#       -var ramp_up_period=125 scripts/client.nomad

variable "image" {
  type        = string
  description = "The image that deploy/stress/Dockerfile makes."
}

variable "datacenters" {
  type        = list(string)
  default     = ["dc1"]
  description = "Where to run."
}

variable "clients" {
  type        = number
  default     = 2
  description = "Client processes."
}

variable "transport" {
  type        = string
  default     = "tcp"
  description = "How they connect: tcp, ws, h2 or ws-h2."

  validation {
    condition     = contains(["tcp", "ws", "h2", "ws-h2"], var.transport)
    error_message = "The transport must be tcp, ws, h2 or ws-h2."
  }
}

variable "connections" {
  type        = number
  default     = 5000
  description = "Connections of each client; a process may have 19,000."
}

variable "streams" {
  type        = number
  default     = 25
  description = "Streams of each connection."
}

variable "ramp_up_period" {
  type        = number
  default     = 125
  description = "Seconds in which a client opens its streams."
}

variable "duration" {
  type        = number
  default     = 3600
  description = "Seconds to go on with all streams open."
}

variable "payload" {
  type        = number
  default     = 1024
  description = "Bytes of each request."
}

variable "cpu" {
  type        = number
  default     = 2000
  description = "Processor time to reserve for each client, MHz."
}

variable "memory" {
  type        = number
  default     = 2048
  description = "Memory to reserve for each client and for it to use at most, MB."
}

job "rsocket-stress-test-client" {
  datacenters = var.datacenters
  type        = "batch"

  group "clients" {
    count = var.clients

    # A client that comes back would open its connections beside those that are being closed.
    restart {
      attempts = 0
      mode     = "fail"
    }

    reschedule {
      attempts  = 0
      unlimited = false
    }

    task "client" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "bench", "rsocket",
          "--transport", var.transport,
          "--payload", "${var.payload}",
          "--duration", "${var.duration}",
          "--json", "${NOMAD_ALLOC_DIR}/data/report.json",
          "--html", "${NOMAD_ALLOC_DIR}/data/report.html",
        ]
        network_mode = "host"

        ulimit {
          nofile = "65536:65536"
        }
      }

      # Where Consul says that the server is.
      template {
        data        = "{{ range service \"rsocket-stress-test-server\" }}RSOCKET_TARGET={{ .Address }}:{{ .Port }}\n{{ end }}"
        destination = "local/target.env"
        env         = true
        change_mode = "noop"
      }

      env {
        CONNECTIONS    = "${var.connections}"
        STREAMS        = "${var.streams}"
        RAMP_UP_PERIOD = "${var.ramp_up_period}"
      }

      resources {
        cpu    = var.cpu
        memory = var.memory
      }
    }
  }
}
