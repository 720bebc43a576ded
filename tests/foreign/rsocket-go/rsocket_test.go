// Conversations of rsocket-go with a running server.

package rsocket

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	rs "github.com/rsocket/rsocket-go"
	"github.com/rsocket/rsocket-go/extension"
	"github.com/rsocket/rsocket-go/payload"
	"github.com/rsocket/rsocket-go/rx/flux"
	"github.com/rsocket/rsocket-go/rx/mono"
)

func everywhere(t *testing.T, hold func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range []string{"tcp", "websocket"} {
		t.Run(kind, func(t *testing.T) { hold(t, kind) })
	}
}

func numbers(count int) []string {
	var found []string
	for n := range count {
		found = append(found, strconv.Itoa(n))
	}
	return found
}

func same[T comparable](t *testing.T, expected, got T) {
	t.Helper()
	if expected != got {
		t.Fatalf("got %v, expected %v", got, expected)
	}
}

func TestPublishAndFetch(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		topic, one := unique("topic"), open(t, kind)
		call(t, "PUT", "/topics/"+topic, "before")
		same(t, "before", one.respond(topic, ""))
		one.respond(topic, "after", with(wishes, "retain:true\n"))
		same(t, "after", call(t, "GET", "/topics/"+topic, ""))
	})
}

func TestSnapshotThenLive(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		topic, one, other := unique("topic"), open(t, kind), open(t, kind)
		call(t, "PUT", "/topics/"+topic, "now")
		stream := one.stream(topic, "", many)
		stream.expect("now")
		for _, text := range numbers(50) {
			other.client.FireAndForget(request(t, topic, text))
		}
		stream.expect(numbers(50)...)
	})
}

func TestPatterns(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		root, one := unique("topic"), open(t, kind)
		call(t, "PUT", "/topics/"+root+"/a/price", "0")
		stream := one.stream(root+"/*/price", "", many)
		same(t, root+"/a/price", stream.next().said["path"])
		one.respond(root+"/b/size", "1")
		one.respond(root+"/b/price", "2")
		last := stream.next()
		same(t, root+"/b/price", last.said["path"])
		same(t, "2", last.data)
	})
}

func TestCancel(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		topic, one := unique("topic"), open(t, kind)
		first, second := one.stream(topic, "", many), one.stream(topic, "", many)
		one.respond(topic, "a")
		first.expect("a")
		second.expect("a")
		first.subscription.Cancel()
		for _, text := range []string{"b", "c"} {
			one.respond(topic, text)
			second.expect(text)
		}
		if len(first.items) > 1 {
			t.Fatal("the cancelled stream goes on")
		}
	})
}

// The client loses an item that is there before its Request has returned, so here none is.
func TestQueue(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		queue, one, other := "queue:"+unique("queue"), open(t, kind), open(t, kind)
		one.respond(queue, "a")
		first := one.stream(queue, "", 1)
		first.expect("a")
		first.subscription.Request(1)
		one.respond(queue, "b")
		one.respond(queue, "c")
		first.expect("b")
		first.subscription.Cancel()
		second := other.stream(queue, "", many)
		rest := []string{second.next().data, second.next().data}
		sort.Strings(rest)
		same(t, "b c", strings.Join(rest, " "))
	})
}

func TestPublishingChannel(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		topic, one := unique("topic"), open(t, kind)
		stream := one.stream(topic, "", many)
		var items []payload.Payload
		for _, text := range numbers(20) {
			items = append(items, request(t, topic, text))
		}
		acknowledgements := subscribe(t, one.client.RequestChannel(flux.FromSlice(items)), many)
		for range items {
			acknowledgements.next()
		}
		stream.expect(numbers(20)...)
	})
}

func TestEcho(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		one := open(t, kind)
		same(t, "hello", one.respond("echo", "hello"))
		stream := one.stream("echo", "tick", 2)
		stream.expect("tick", "tick")
		stream.subscription.Request(1)
		stream.expect("tick")
		stream.subscription.Cancel()
		items := []payload.Payload{request(t, "echo", "0"), payload.NewString("1", ""), payload.NewString("2", "")}
		subscribe(t, one.client.RequestChannel(flux.FromSlice(items)), many).expect("0", "1", "2")
	})
}

// The client takes an id when a stream is made, and sends it when somebody subscribes.
func TestIdsOutOfOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		topic, one := unique("topic"), open(t, kind)
		call(t, "PUT", "/topics/"+topic, "now")
		made := one.client.RequestStream(request(t, topic, ""))
		same(t, "later", one.respond("echo", "later"))
		subscribe(t, made, many).expect("now")
	})
}

func TestFragments(t *testing.T) {
	data := strings.Repeat("0123456789abcdef", 10_000)
	for _, mtu := range []int{64, 1024} {
		everywhere(t, func(t *testing.T, kind string) {
			one := open(t, kind, func(wanted *options) { wanted.mtu = mtu })
			// As much as this may not come before the login is done.
			same(t, "small", one.respond("echo", "small"))
			same(t, data, one.respond("echo", data))
			topic := unique("topic")
			stream := one.stream(topic, "", many)
			one.respond(topic, data)
			stream.expect(data)
		})
	}
}

func exclaiming() rs.RSocket {
	return rs.NewAbstractSocket(
		rs.RequestResponse(func(asked payload.Payload) mono.Mono {
			return mono.Just(payload.NewString(asked.DataUTF8()+"!", ""))
		}),
		rs.RequestChannel(func(said flux.Flux) flux.Flux {
			return said.Map(func(one payload.Payload) (payload.Payload, error) {
				return payload.NewString(one.DataUTF8()+"!", ""), nil
			})
		}),
	)
}

func TestService(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		service := unique("service")
		server := open(t, kind, func(wanted *options) { wanted.responder = exclaiming() })
		caller := open(t, kind)
		serving := server.stream("serve:"+service, "", many)
		serving.next()
		for _, text := range numbers(20) {
			same(t, text+"!", caller.respond("service:"+service, text))
		}
		same(t, "b!", call(t, "POST", "/services/"+service, "b"))
		serving.subscription.Cancel()
		until(t, func() bool {
			_, err := caller.ask(request(t, "service:"+service, "a"))
			return err != nil
		})
	})
}

func TestConversation(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		service := unique("service")
		server := open(t, kind, func(wanted *options) { wanted.responder = exclaiming() })
		caller := open(t, kind)
		server.stream("serve:"+service, "", many).next()
		said := []payload.Payload{request(t, "service:"+service, "0")}
		for _, text := range numbers(20)[1:] {
			said = append(said, payload.NewString(text, ""))
		}
		channel := subscribe(t, caller.client.RequestChannel(flux.FromSlice(said)), many)
		for _, text := range numbers(20) {
			channel.expect(text + "!")
		}
	})
}

func TestPropertiesAndTypes(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		topic, one := unique("topic"), open(t, kind)
		stream := one.stream(topic, "", many, with(wishes, "properties:true\n"))
		json := func(builder *extension.CompositeMetadataBuilder) {
			builder.PushWellKnown(extension.MessageMimeType, []byte{0x80 | byte(extension.ApplicationJSON)})
		}
		one.respond(topic, `{"bid":1}`, json, with(properties, "region:eu\n"))
		found := stream.next()
		same(t, `{"bid":1}`, found.data)
		same(t, "eu", found.said["region"])
	})
}

func TestMistakes(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		one := open(t, kind)
		for _, route := range []string{"a//b", "queue:", "service:a/*/b"} {
			same(t, rs.ErrorCodeInvalid, one.refused(route, "x"))
		}
		one.refused("service:"+unique("nobody"), "x")
		same(t, "alive", one.respond("echo", "alive"))
	})
}

func TestWhoMayWhat(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		one := open(t, kind, func(wanted *options) { wanted.auth = simple("limited", "limited-passcode") })
		one.respond("open/"+unique("topic"), "allowed")
		one.refused("closed/"+unique("topic"), "x")
		one.respond("open/"+unique("topic"), "still there")
	})
}

func TestWrongCredentials(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		one := open(t, kind, func(wanted *options) { wanted.auth = bearer("wrong") })
		select {
		case err := <-one.closed:
			if problem, ok := err.(rs.Error); !ok || problem.ErrorCode() != rs.ErrorCodeRejectedSetup {
				t.Fatalf("ended by %v", err)
			}
		case <-time.After(wait):
			t.Fatal("the connection stays")
		}
	})
}

func TestKeepalives(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		one := open(t, kind, func(wanted *options) { wanted.period, wanted.lifetime = 100*time.Millisecond, 4*time.Second })
		// Five seconds of them: longer than a connection lives whose keepalives nobody answers.
		ticks := slices.Repeat([]string{"tick"}, 50)
		one.stream("echo", "tick", len(ticks)).expect(ticks...)
		same(t, "alive", one.respond("echo", "alive"))
	})
}

func TestMetadataPush(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		one := open(t, kind)
		one.client.MetadataPush(payload.New(nil, composite(t, with(properties, "x:y\n"))))
		same(t, "alive", one.respond("echo", "alive"))
	})
}

func TestFiftyClients(t *testing.T) {
	everywhere(t, func(t *testing.T, kind string) {
		topic := unique("topic")
		call(t, "PUT", "/topics/"+topic, "ready")
		var crowd []*peer
		var streams []*stream
		for range 50 {
			crowd = append(crowd, open(t, kind))
			streams = append(streams, crowd[len(crowd)-1].stream(topic, "", many))
		}
		for _, stream := range streams {
			stream.expect("ready")
		}
		for n, text := range numbers(10) {
			crowd[n].respond(topic, text)
		}
		for _, stream := range streams {
			stream.expect(numbers(10)...)
		}
	})
}
