// Package foreign drives go-stomp against a running server.
//
// This file makes the connections and bounds every wait; the conversations are in stomp_test.go.
package foreign

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-stomp/stomp/v3"
	"github.com/go-stomp/stomp/v3/frame"
)

const wait = 10 * time.Second

var serial atomic.Int64

func unique(kind string) string {
	return fmt.Sprintf("/%s/go-%d-%d", kind, os.Getpid(), serial.Add(1))
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func credentials() (string, string) {
	login, passcode, _ := strings.Cut(setting("TIDERACE_LOGIN", "tide:tide-passcode"), ":")
	return login, passcode
}

// dial opens a connection in one version that is closed when the test ends.
func dial(t *testing.T, version stomp.Version, options ...func(*stomp.Conn) error) *stomp.Conn {
	t.Helper()
	login, passcode := credentials()
	options = append([]func(*stomp.Conn) error{
		stomp.ConnOpt.Login(login, passcode),
		stomp.ConnOpt.AcceptVersion(version),
		stomp.ConnOpt.Host("localhost"),
		stomp.ConnOpt.HeartBeat(0, 0),
	}, options...)
	conn, err := stomp.Dial("tcp", setting("TIDERACE_STOMP", "127.0.0.1:7800"), options...)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = conn.MustDisconnect() })
	return conn
}

func subscribe(t *testing.T, conn *stomp.Conn, destination string, mode stomp.AckMode, options ...func(*frame.Frame) error) *stomp.Subscription {
	t.Helper()
	// go-stomp waits for no receipt of SUBSCRIBE; settle does instead.
	subscription, err := conn.Subscribe(destination, mode, options...)
	if err != nil {
		t.Fatalf("subscribe to %s: %v", destination, err)
	}
	settle(t, conn)
	return subscription
}

// settle returns when the server has handled all that was sent before. A receipt says that for its
// own frame only (STOMP 1.2, "RECEIPT"), but each part of the server handles what one client sends
// in order; so many topics are kept by every part of it.
func settle(t *testing.T, conn *stomp.Conn) {
	t.Helper()
	for part := range 16 {
		send(t, conn, fmt.Sprintf("/topic/go.settle.%d", part), "")
	}
}

func send(t *testing.T, conn *stomp.Conn, destination, body string, options ...func(*frame.Frame) error) {
	t.Helper()
	options = append(options, stomp.SendOpt.Receipt)
	if err := conn.Send(destination, "text/plain", []byte(body), options...); err != nil {
		t.Fatalf("send to %s: %v", destination, err)
	}
}

func receive(t *testing.T, subscription *stomp.Subscription) *stomp.Message {
	t.Helper()
	select {
	case message, open := <-subscription.C:
		if !open {
			t.Fatalf("the subscription ended")
		}
		if message.Err != nil {
			t.Fatalf("receive: %v", message.Err)
		}
		return message
	case <-time.After(wait):
		t.Fatalf("no message in %v", wait)
		return nil
	}
}

func expect(t *testing.T, subscription *stomp.Subscription, bodies ...string) []*stomp.Message {
	t.Helper()
	var messages []*stomp.Message
	for _, body := range bodies {
		message := receive(t, subscription)
		if string(message.Body) != body {
			t.Fatalf("got %q, expected %q", message.Body, body)
		}
		messages = append(messages, message)
	}
	return messages
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
