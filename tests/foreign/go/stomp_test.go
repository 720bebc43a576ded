package foreign

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-stomp/stomp/v3"
)

var versions = []stomp.Version{stomp.V10, stomp.V11, stomp.V12}

// inEach runs a conversation once per version of the protocol, without those left out.
func inEach(t *testing.T, among []stomp.Version, conversation func(t *testing.T, version stomp.Version)) {
	for _, version := range among {
		t.Run(string(version), func(t *testing.T) { conversation(t, version) })
	}
}

func TestConnectAndDisconnect(t *testing.T) {
	inEach(t, versions, func(t *testing.T, version stomp.Version) {
		conn := dial(t, version)
		if conn.Version() != version {
			t.Errorf("spoke %s", conn.Version())
		}
		if conn.Session() == "" {
			t.Error("no session")
		}
		must(t, conn.Disconnect())
	})
}

func TestStompCommand(t *testing.T) {
	dial(t, stomp.V12, stomp.ConnOpt.UseStomp)
}

func TestWrongPasscode(t *testing.T) {
	dial(t, stomp.V12)
	conn, err := stomp.Dial("tcp", setting("TIDERACE_STOMP", "127.0.0.1:7800"),
		stomp.ConnOpt.Login("tide", "wrong"), stomp.ConnOpt.Host("localhost"))
	if err == nil {
		_ = conn.Disconnect()
		t.Fatal("was let in")
	}
}

func TestPublishAndSubscribe(t *testing.T) {
	inEach(t, versions, func(t *testing.T, version stomp.Version) {
		topic, producer, consumer := unique("topic"), dial(t, version), dial(t, version)
		subscription := subscribe(t, consumer, topic, stomp.AckAuto)
		for n := range 100 {
			must(t, producer.Send(topic, "text/plain", []byte(fmt.Sprint("grüße ", n)), stomp.SendOpt.Header("number", fmt.Sprint(n))))
		}
		for n := range 100 {
			message := expect(t, subscription, fmt.Sprint("grüße ", n))[0]
			if message.Header.Get("number") != fmt.Sprint(n) || message.ContentType != "text/plain" || message.Destination != topic {
				t.Fatalf("headers %v", message.Header)
			}
		}
	})
}

func TestUnsubscribe(t *testing.T) {
	inEach(t, versions[1:], func(t *testing.T, version stomp.Version) {
		topic, conn := unique("topic"), dial(t, version)
		subscription := subscribe(t, conn, topic, stomp.AckAuto)
		fence := subscribe(t, conn, topic+".fence", stomp.AckAuto)
		must(t, subscription.Unsubscribe())
		send(t, conn, topic, "unwanted")
		send(t, conn, topic+".fence", "fence")
		expect(t, fence, "fence")
	})
}

func TestClientAcknowledgement(t *testing.T) {
	inEach(t, versions, func(t *testing.T, version stomp.Version) {
		queue, first, second := unique("queue"), dial(t, version), dial(t, version)
		subscription := subscribe(t, first, queue, stomp.AckClient)
		for _, body := range []string{"1", "2", "3"} {
			send(t, second, queue, body)
		}
		messages := expect(t, subscription, "1", "2", "3")
		must(t, first.Ack(messages[1]))
		must(t, first.Disconnect())
		expect(t, subscribe(t, second, queue, stomp.AckAuto), "3")
	})
}

func TestIndividualAcknowledgementAndRefusal(t *testing.T) {
	inEach(t, versions[1:], func(t *testing.T, version stomp.Version) {
		queue, first, second := unique("queue"), dial(t, version), dial(t, version)
		one := subscribe(t, first, queue, stomp.AckClientIndividual)
		for _, body := range []string{"1", "2", "3"} {
			send(t, second, queue, body)
		}
		messages := expect(t, one, "1", "2", "3")
		two := subscribe(t, second, queue, stomp.AckClientIndividual)
		must(t, first.Ack(messages[2]))
		must(t, first.Nack(messages[0]))
		must(t, second.Ack(expect(t, two, "1")[0]))
		settle(t, first)
		must(t, first.MustDisconnect())
		expect(t, two, "2")
	})
}

func TestTransactions(t *testing.T) {
	inEach(t, versions, func(t *testing.T, version stomp.Version) {
		topic, producer, consumer := unique("topic"), dial(t, version), dial(t, version)
		subscription := subscribe(t, consumer, topic, stomp.AckAuto)
		aborted := producer.Begin()
		must(t, aborted.Send(topic, "text/plain", []byte("never")))
		must(t, aborted.Abort())
		kept := producer.Begin()
		must(t, kept.Send(topic, "text/plain", []byte("kept")))
		must(t, kept.CommitWithReceipt())
		send(t, producer, topic, "end")
		expect(t, subscription, "kept", "end")
	})
}

func TestAcknowledgementInATransaction(t *testing.T) {
	inEach(t, versions[1:], func(t *testing.T, version stomp.Version) {
		queue, first, second := unique("queue"), dial(t, version), dial(t, version)
		subscription := subscribe(t, first, queue, stomp.AckClientIndividual)
		send(t, second, queue, "1")
		send(t, second, queue, "2")
		messages := expect(t, subscription, "1", "2")
		transaction := first.Begin()
		must(t, transaction.Ack(messages[0]))
		must(t, transaction.Nack(messages[1]))
		waiting := subscribe(t, second, queue, stomp.AckAuto)
		must(t, transaction.CommitWithReceipt())
		expect(t, waiting, "2")
	})
}

func TestHeaderEscapes(t *testing.T) {
	inEach(t, versions[1:], func(t *testing.T, version stomp.Version) {
		topic, conn := unique("topic"), dial(t, version)
		subscription := subscribe(t, conn, topic, stomp.AckAuto)
		odd := "colon: backslash\\ newline\n end"
		send(t, conn, topic, "x", stomp.SendOpt.Header("odd", odd))
		if got := receive(t, subscription).Header.Get("odd"); got != odd {
			t.Errorf("got %q", got)
		}
	})
}

func TestBinaryAndLargeBodies(t *testing.T) {
	topic, conn := unique("topic"), dial(t, stomp.V12)
	subscription := subscribe(t, conn, topic, stomp.AckAuto)
	var all []byte
	for n := range 256 {
		all = append(all, byte(n))
	}
	for _, body := range [][]byte{{}, all, bytes.Repeat(all, 4096)} {
		must(t, conn.Send(topic, "application/octet-stream", body))
		if got := receive(t, subscription).Body; !bytes.Equal(got, body) {
			t.Errorf("%d bytes came back as %d", len(body), len(got))
		}
	}
}

func TestHeartBeats(t *testing.T) {
	inEach(t, versions[1:], func(t *testing.T, version stomp.Version) {
		topic := unique("topic")
		beating := dial(t, version, stomp.ConnOpt.HeartBeat(500*time.Millisecond, 500*time.Millisecond))
		other := dial(t, version)
		subscription := subscribe(t, beating, topic, stomp.AckAuto)
		// Longer than the server would wait for a beat: that the silent connection hears something then shows that
		// both sides beat.
		<-time.After(5 * time.Second)
		send(t, other, topic, "still there")
		expect(t, subscription, "still there")
	})
}

// A client that wants no heart-beats hears none, and must not be led to expect any: go-stomp takes
// the interval announced in CONNECTED for a promise, whatever it asked for itself.
func TestSilenceWithoutHeartBeats(t *testing.T) {
	topic := unique("topic")
	silent := dial(t, stomp.V12, stomp.ConnOpt.HeartBeatError(100*time.Millisecond))
	other := dial(t, stomp.V12)
	subscription := subscribe(t, silent, topic, stomp.AckAuto)
	<-time.After(1500 * time.Millisecond)
	send(t, other, topic, "still there")
	expect(t, subscription, "still there")
}

func TestErrorEndsTheConnection(t *testing.T) {
	topic, conn := unique("topic"), dial(t, stomp.V12)
	subscription := subscribe(t, conn, topic, stomp.AckAuto)
	must(t, conn.Send("/nowhere/x", "text/plain", nil))
	select {
	case message := <-subscription.C:
		if message == nil || message.Err == nil || !strings.Contains(fmt.Sprint(message.Err), "destination") {
			t.Errorf("got %v", message)
		}
	case <-time.After(wait):
		t.Error("no error was told")
	}
}

func TestRequestAndReply(t *testing.T) {
	queue, requester, responder := unique("queue"), dial(t, stomp.V12), dial(t, stomp.V12)
	requests := subscribe(t, responder, queue, stomp.AckAuto)
	answers := subscribe(t, requester, "/temp-queue/answers", stomp.AckAuto)
	send(t, requester, queue, "question", stomp.SendOpt.Header("reply-to", "/temp-queue/answers"))
	send(t, responder, receive(t, requests).Header.Get("reply-to"), "answer")
	expect(t, answers, "answer")
}

func TestWildcardsCompositesAndSelectors(t *testing.T) {
	topic, conn := unique("topic"), dial(t, stomp.V12)
	star := subscribe(t, conn, topic+".*", stomp.AckAuto)
	both := subscribe(t, conn, topic+".a,"+topic+".b", stomp.AckAuto)
	large := subscribe(t, conn, topic+".a", stomp.AckAuto, stomp.SubscribeOpt.Header("selector", "size BETWEEN 10 AND 99"))
	send(t, conn, topic+".a", "small", stomp.SendOpt.Header("size", "1"))
	send(t, conn, topic+".a", "large", stomp.SendOpt.Header("size", "50"))
	expect(t, star, "small", "large")
	expect(t, both, "small", "large")
	expect(t, large, "large")
	send(t, conn, topic+".b", "other")
	expect(t, star, "other")
	expect(t, both, "other")
}

func TestRetainedValuesAndCredit(t *testing.T) {
	topic, queue, one, other := unique("topic"), unique("queue"), dial(t, stomp.V12), dial(t, stomp.V12)
	send(t, one, topic, "kept", stomp.SendOpt.Header("retain", "set"))
	expect(t, subscribe(t, other, topic, stomp.AckAuto), "kept")
	slow := subscribe(t, one, queue, stomp.AckClientIndividual, stomp.SubscribeOpt.Header("credit", "1,0"))
	send(t, other, queue, "1")
	send(t, other, queue, "2")
	first := expect(t, slow, "1")[0]
	expect(t, subscribe(t, other, queue, stomp.AckAuto), "2")
	must(t, one.Ack(first))
}
