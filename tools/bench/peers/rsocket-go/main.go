// An rsocket-go server as its documentation would write it: what comes goes back.
//
// Usage: rsocket-go [port] [milliseconds between a stream's messages] [tcp|ws]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/rsocket/rsocket-go"
	"github.com/rsocket/rsocket-go/core/transport"
	"github.com/rsocket/rsocket-go/payload"
	"github.com/rsocket/rsocket-go/rx/flux"
	"github.com/rsocket/rsocket-go/rx/mono"
)

func argument(at int, usual string) string {
	if len(os.Args) > at {
		return os.Args[at]
	}
	return usual
}

func main() {
	port, err := strconv.Atoi(argument(1, "7001"))
	if err != nil {
		log.Fatal("the port must be a number")
	}
	millis, err := strconv.Atoi(argument(2, "1000"))
	if err != nil || millis < 1 {
		log.Fatal("the milliseconds must be a number above 0")
	}
	var carrier transport.ServerTransporter
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if argument(3, "tcp") == "ws" {
		carrier = rsocket.WebsocketServer().SetAddr(address).SetPath("/rsocket").Build()
	} else {
		carrier = rsocket.TCPServer().SetAddr(address).Build()
	}
	accept := func(context.Context, payload.SetupPayload, rsocket.CloseableRSocket) (rsocket.RSocket, error) {
		return responder(time.Duration(millis) * time.Millisecond), nil
	}
	log.Fatal(rsocket.Receive().Acceptor(accept).Transport(carrier).Serve(context.Background()))
}

func responder(interval time.Duration) rsocket.RSocket {
	return rsocket.NewAbstractSocket(
		rsocket.RequestResponse(func(request payload.Payload) mono.Mono {
			return mono.JustOneshot(payload.Clone(request))
		}),
		rsocket.RequestStream(func(request payload.Payload) flux.Flux {
			// The request's bytes are used again after this call.
			kept := payload.Clone(request)
			return flux.Create(func(ctx context.Context, sink flux.Sink) {
				ticker := time.NewTicker(interval)
				defer ticker.Stop()
				for {
					select {
					case <-ctx.Done():
						return
					case <-ticker.C:
						sink.Next(kept)
					}
				}
			})
		}),
		rsocket.RequestChannel(func(requests flux.Flux) flux.Flux {
			return requests.Map(func(request payload.Payload) (payload.Payload, error) {
				return payload.Clone(request), nil
			})
		}),
	)
}
