// Package rsocket drives rsocket-go against a running server.
//
// This file makes the connections and bounds every wait; the conversations are in rsocket_test.go.
package rsocket

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rs "github.com/rsocket/rsocket-go"
	"github.com/rsocket/rsocket-go/core/transport"
	"github.com/rsocket/rsocket-go/extension"
	"github.com/rsocket/rsocket-go/payload"
	"github.com/rsocket/rsocket-go/rx"
	"github.com/rsocket/rsocket-go/rx/flux"
)

const (
	wait       = 10 * time.Second
	many       = rx.RequestMax
	properties = "message/x.tiderace.properties.v0"
	wishes     = "message/x.tiderace.options.v0"
	details    = "message/x.tiderace.message.v0"
)

var serial atomic.Int64

func unique(kind string) string {
	return fmt.Sprintf("%s-rsgo-%d-%d", kind, os.Getpid(), serial.Add(1))
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func address() string { return setting("TIDERACE_STOMP", "127.0.0.1:7800") }

func token() string { return setting("TIDERACE_TOKEN", "robot-secret") }

func bearer(token string) []byte {
	return extension.MustNewAuthentication("bearer", []byte(token)).Bytes()
}

func simple(name, password string) []byte {
	content := binary.BigEndian.AppendUint16(nil, uint16(len(name)))
	return extension.MustNewAuthentication("simple", append(append(content, name...), password...)).Bytes()
}

func composite(t *testing.T, entries func(*extension.CompositeMetadataBuilder)) []byte {
	t.Helper()
	builder := extension.NewCompositeMetadataBuilder()
	entries(builder)
	found, err := builder.Build()
	must(t, err)
	return found
}

// request has a route, data, and more entries of metadata.
func request(t *testing.T, route, data string, more ...func(*extension.CompositeMetadataBuilder)) payload.Payload {
	t.Helper()
	tags, err := extension.EncodeRouting(route)
	must(t, err)
	return payload.New([]byte(data), composite(t, func(builder *extension.CompositeMetadataBuilder) {
		builder.PushWellKnown(extension.MessageRouting, tags)
		for _, one := range more {
			one(builder)
		}
	}))
}

func with(mime, lines string) func(*extension.CompositeMetadataBuilder) {
	return func(builder *extension.CompositeMetadataBuilder) { builder.PushString(mime, lines) }
}

// item is what came, in memory of its own: the client's is used again. Said is what its metadata says in lines.
type item struct {
	data string
	said map[string]string
}

func itemOf(received payload.Payload) item {
	found := item{string(received.Data()), map[string]string{}}
	metadata, _ := received.Metadata()
	for scanner := extension.NewCompositeMetadataBytes(metadata).Scanner(); len(metadata) > 0 && scanner.Scan(); {
		mime, content, err := scanner.MetadataUTF8()
		if err != nil || mime != properties && mime != details {
			continue
		}
		for _, line := range strings.Split(content, "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				found.said[name] = value
			}
		}
	}
	return found
}

type peer struct {
	t      *testing.T
	client rs.Client
	closed chan error
}

type options struct {
	auth      []byte
	mtu       int
	responder rs.RSocket
	period    time.Duration
	lifetime  time.Duration
}

func open(t *testing.T, kind string, change ...func(*options)) *peer {
	t.Helper()
	wanted := options{auth: bearer(token()), period: time.Second, lifetime: 20 * time.Second}
	for _, one := range change {
		one(&wanted)
	}
	found := &peer{t: t, closed: make(chan error, 1)}
	var to transport.ClientTransporter
	if kind == "tcp" {
		to = rs.TCPClient().SetAddr(address()).Build()
	} else {
		to = rs.WebsocketClient().SetURL("ws://" + address() + "/rsocket").Build()
	}
	builder := rs.Connect().
		KeepAlive(wanted.period, wanted.lifetime, 1).
		MetadataMimeType(extension.MessageCompositeMetadata.String()).
		DataMimeType("text/plain").
		Fragment(wanted.mtu).
		SetupPayload(payload.New(nil, composite(t, func(builder *extension.CompositeMetadataBuilder) {
			builder.PushWellKnown(extension.MessageAuthentication, wanted.auth)
		}))).
		OnClose(func(err error) {
			select {
			case found.closed <- err:
			default:
			}
		})
	ready := builder.Transport(to)
	if wanted.responder != nil {
		ready = builder.Acceptor(func(context.Context, rs.RSocket) rs.RSocket { return wanted.responder }).Transport(to)
	}
	client, err := ready.Start(context.Background())
	must(t, err)
	found.client = client
	t.Cleanup(func() { _ = client.Close() })
	return found
}

func within(t *testing.T) context.Context {
	t.Helper()
	found, cancel := context.WithTimeout(context.Background(), wait)
	t.Cleanup(cancel)
	return found
}

func (p *peer) ask(request payload.Payload) (item, error) {
	found, release, err := p.client.RequestResponse(request).BlockUnsafe(within(p.t))
	if err != nil {
		return item{}, err
	}
	if found == nil {
		return item{}, nil
	}
	defer release()
	return itemOf(found), nil
}

func (p *peer) respond(route, data string, more ...func(*extension.CompositeMetadataBuilder)) string {
	p.t.Helper()
	found, err := p.ask(request(p.t, route, data, more...))
	must(p.t, err)
	return found.data
}

// refused is what the server answers to a request that must fail.
func (p *peer) refused(route, data string) rs.ErrorCode {
	p.t.Helper()
	found, err := p.ask(request(p.t, route, data))
	problem, ok := err.(rs.Error)
	if !ok {
		p.t.Fatalf("%s was not refused: %v %v", route, found, err)
	}
	return problem.ErrorCode()
}

// stream is what comes for a request, and the credit for it.
type stream struct {
	t            *testing.T
	items        chan item
	ended        chan error
	subscription rx.Subscription
}

func (p *peer) stream(route, data string, n int, more ...func(*extension.CompositeMetadataBuilder)) *stream {
	p.t.Helper()
	return subscribe(p.t, p.client.RequestStream(request(p.t, route, data, more...)), n)
}

func subscribe(t *testing.T, source flux.Flux, n int) *stream {
	t.Helper()
	found := &stream{t: t, items: make(chan item, 10_000), ended: make(chan error, 1)}
	subscribed := make(chan struct{})
	source.Subscribe(context.Background(),
		rx.OnSubscribe(func(_ context.Context, subscription rx.Subscription) {
			found.subscription = subscription
			close(subscribed)
			subscription.Request(n)
		}),
		rx.OnNext(func(received payload.Payload) error {
			found.items <- itemOf(received)
			return nil
		}),
		rx.OnComplete(func() { found.ended <- nil }),
		rx.OnError(func(err error) { found.ended <- err }),
	)
	<-subscribed
	return found
}

func (s *stream) next() item {
	s.t.Helper()
	select {
	case found := <-s.items:
		return found
	case <-time.After(wait):
		s.t.Fatalf("no item in %v", wait)
		return item{}
	}
}

func (s *stream) expect(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if found := s.next(); found.data != text {
			s.t.Fatalf("got %q, expected %q", found.data, text)
		}
	}
}

func (s *stream) end() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(wait):
		s.t.Fatalf("no end in %v", wait)
		return nil
	}
}

// call speaks another protocol: plain HTTP.
func call(t *testing.T, method, path, body string) string {
	t.Helper()
	asked, err := http.NewRequestWithContext(within(t), method, "http://"+address()+path, strings.NewReader(body))
	must(t, err)
	asked.Header.Set("Authorization", "Bearer "+token())
	answer, err := http.DefaultClient.Do(asked)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	if answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	return string(text)
}

// until asks again until it is so; the whole has the same limit as any wait.
func until(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); !so(); {
		if time.Now().After(deadline) {
			t.Fatal("it never came to be")
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
