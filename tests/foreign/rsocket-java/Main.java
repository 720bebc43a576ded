import io.rsocket.Payload;
import io.rsocket.RSocket;
import io.rsocket.core.LeaseSpec;
import io.rsocket.exceptions.RejectedSetupException;
import io.rsocket.util.DefaultPayload;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** Conversations of rsocket-java with a running server; the last line counts them. */
public final class Main {
  private static final int APPLICATION_ERROR = 0x201;
  private static final int REJECTED = 0x202;
  private static final int INVALID = 0x204;
  private static final long MANY = Long.MAX_VALUE;
  private static int serial = 0;

  interface Conversation {
    void hold(String transport) throws Exception;
  }

  static String unique(String prefix) {
    return prefix + "-rsjava-" + ProcessHandle.current().pid() + "-" + ++serial;
  }

  static void same(Object expected, Object got) {
    if (!String.valueOf(expected).equals(String.valueOf(got))) {
      throw new AssertionError("expected " + expected + ", got " + got);
    }
  }

  /** Asks again until it is so; the whole has the same limit as any wait. */
  static void until(Callable<Boolean> so) throws Exception {
    long deadline = System.nanoTime() + Peer.WAIT.toNanos();
    while (true) {
      Exception last = null;
      try {
        if (so.call()) return;
      } catch (Exception problem) {
        last = problem;
      }
      if (System.nanoTime() > deadline) throw new AssertionError("it never came to be", last);
    }
  }

  static List<String> numbers(int count) {
    return IntStream.range(0, count).mapToObj(String::valueOf).collect(Collectors.toList());
  }

  static void publishAndFetch(String transport) throws Exception {
    String topic = unique("topic");
    try (Peer peer = Peer.open(transport)) {
      Peer.http("PUT", "/topics/" + topic, "before");
      same("before", peer.respond(topic, ""));
      peer.response(Peer.request(topic, "after", Peer.lines(Peer.OPTIONS, "retain:true\n")));
      same("after", Peer.http("GET", "/topics/" + topic, ""));
    }
  }

  static void snapshotThenLive(String transport) throws Exception {
    String topic = unique("topic");
    try (Peer peer = Peer.open(transport); Peer other = Peer.open(transport)) {
      Peer.http("PUT", "/topics/" + topic, "now");
      Stream stream = peer.stream(topic, MANY);
      same("now", stream.text());
      for (int n = 0; n < 50; n++) other.fire(topic, n);
      same(numbers(50), stream.texts(50));
    }
  }

  static void patterns(String transport) throws Exception {
    String root = unique("topic");
    try (Peer peer = Peer.open(transport)) {
      Peer.http("PUT", "/topics/" + root + "/a/price", "0");
      Stream stream = peer.stream(root + "/*/price", MANY);
      same(root + "/a/price", Peer.line(stream.next(), Peer.MESSAGE, "path"));
      peer.respond(root + "/b/size", 1);
      peer.respond(root + "/b/price", 2);
      Payload last = stream.next();
      same(root + "/b/price", Peer.line(last, Peer.MESSAGE, "path"));
      same("2", last.getDataUtf8());
    }
  }

  static void creditConflates(String transport) throws Exception {
    String topic = unique("topic");
    try (Peer peer = Peer.open(transport)) {
      Peer.http("PUT", "/topics/" + topic, "0");
      Stream stream = peer.stream(topic, 1);
      same("0", stream.text());
      for (int n = 1; n <= 20; n++) peer.respond(topic, n);
      stream.request(1);
      same("20", stream.text());
      peer.respond(topic, 21);
      stream.request(MANY);
      same("21", stream.text());
    }
  }

  static void cancel(String transport) throws Exception {
    String topic = unique("topic");
    try (Peer peer = Peer.open(transport)) {
      Stream first = peer.stream(topic, MANY);
      Stream second = peer.stream(topic, MANY);
      peer.respond(topic, "a");
      same("aa", first.text() + second.text());
      first.cancel();
      for (String text : new String[] {"b", "c"}) {
        peer.respond(topic, text);
        same(text, second.text());
      }
      same(true, first.waiting() <= 1);
    }
  }

  static void queue(String transport) throws Exception {
    String queue = "queue:" + unique("queue");
    try (Peer peer = Peer.open(transport); Peer other = Peer.open(transport)) {
      for (String job : new String[] {"a", "b", "c"}) peer.respond(queue, job);
      Stream first = peer.stream(queue, 1);
      same("a", first.text());
      first.request(1);
      same("b", first.text());
      first.cancel();
      same("[b, c]", new TreeSet<>(other.stream(queue, MANY).texts(2)));
    }
  }

  static void publishingChannel(String transport) throws Exception {
    String topic = unique("topic");
    try (Peer peer = Peer.open(transport)) {
      Stream stream = peer.stream(topic, MANY);
      List<Payload> items = new ArrayList<>();
      items.add(Peer.request(topic, "0"));
      for (int n = 1; n < 20; n++) items.add(Peer.item(n));
      Stream acknowledgements = peer.channel(Flux.fromIterable(items));
      for (int n = 0; n < 20; n++) acknowledgements.next();
      same("complete", acknowledgements.ended());
      same(numbers(20), stream.texts(20));
    }
  }

  static void echo(String transport) throws Exception {
    try (Peer peer = Peer.open(transport)) {
      same("hello", peer.respond("echo", "hello"));
      Stream stream = peer.stream(Peer.request("echo", "tick"), 2);
      same("[tick, tick]", stream.texts(2));
      stream.request(1);
      same("tick", stream.text());
      stream.cancel();
      Stream channel = peer.channel(Flux.just(Peer.request("echo", "0"), Peer.item(1), Peer.item(2)));
      same("[0, 1, 2]", channel.texts(3));
      same("complete", channel.ended());
    }
  }

  static void fragments(String transport) throws Exception {
    byte[] data = new byte[300_000];
    for (int n = 0; n < data.length; n++) data[n] = (byte) n;
    for (int mtu : new int[] {64, 1024, 65_536}) {
      try (Peer peer = Peer.open(transport, connector -> connector.fragment(mtu))) {
        Payload found = peer.response(Peer.request("echo", data));
        byte[] bytes = new byte[found.data().readableBytes()];
        found.data().readBytes(bytes);
        same(true, Arrays.equals(data, bytes));
        String topic = unique("topic");
        Stream stream = peer.stream(topic, MANY);
        peer.response(Peer.request(topic, data));
        same(data.length, stream.next().data().readableBytes());
      }
    }
  }

  private static RSocket exclaiming() {
    return new RSocket() {
      @Override
      public Mono<Payload> requestResponse(Payload payload) {
        return Mono.just(DefaultPayload.create(payload.getDataUtf8() + "!"));
      }

      @Override
      public Flux<Payload> requestChannel(Publisher<Payload> payloads) {
        return Flux.from(payloads).map(one -> DefaultPayload.create(one.getDataUtf8() + "!"));
      }
    };
  }

  static void service(String transport) throws Exception {
    String service = unique("service");
    try (Peer server = Peer.open(transport, Peer.serving(exclaiming())); Peer caller = Peer.open(transport)) {
      Stream serving = server.stream("serve:" + service, MANY);
      serving.next();
      for (int n = 0; n < 20; n++) same(n + "!", caller.respond("service:" + service, n));
      same("b!", Peer.http("POST", "/services/" + service, "b"));
      serving.cancel();
      until(() -> Set.of(REJECTED, APPLICATION_ERROR).contains(caller.refused("service:" + service, "a")));
    }
  }

  static void conversation(String transport) throws Exception {
    String service = unique("service");
    try (Peer server = Peer.open(transport, Peer.serving(exclaiming())); Peer caller = Peer.open(transport)) {
      server.stream("serve:" + service, MANY).next();
      Sinks.Many<Payload> said = Sinks.many().unicast().onBackpressureBuffer();
      Stream channel = caller.channel(said.asFlux());
      said.tryEmitNext(Peer.request("service:" + service, "0"));
      same("0!", channel.text());
      for (int n = 1; n < 20; n++) {
        said.tryEmitNext(Peer.item(n));
        same(n + "!", channel.text());
      }
      said.tryEmitComplete();
      same("complete", channel.ended());
    }
  }

  /** What a caller asks for is what the client that serves is asked for, by Reactor's own account. */
  static void demand(String transport) throws Exception {
    String service = unique("service");
    AtomicLong asked = new AtomicLong();
    RSocket endless = new RSocket() {
      @Override
      public Flux<Payload> requestChannel(Publisher<Payload> payloads) {
        return Flux.range(0, 1_000_000)
            .map(n -> DefaultPayload.create("" + n))
            .doOnRequest(asked::addAndGet);
      }
    };
    try (Peer server = Peer.open(transport, Peer.serving(endless)); Peer caller = Peer.open(transport)) {
      Stream serving = new Stream(MANY);
      server.socket.requestChannel(Flux.concat(Mono.just(Peer.request("serve:" + service, "")), Flux.never())).subscribe(serving);
      serving.next();
      Stream stream = caller.stream("service:" + service, 10);
      same(numbers(10), stream.texts(10));
      same(10L, asked.get());
      stream.request(5);
      same(List.of("10", "11", "12", "13", "14"), stream.texts(5));
      same(15L, asked.get());
      // Then as much as there is: the server asks for no more than a window at a time.
      stream.request(1000);
      for (int n = 15; n < 1015; n++) same("" + n, stream.text());
      same(1015L, asked.get());
      stream.cancel();
    }
  }

  static void properties(String transport) throws Exception {
    String topic = unique("topic");
    try (Peer peer = Peer.open(transport)) {
      Stream stream = peer.stream(Peer.request(topic, "", Peer.lines(Peer.OPTIONS, "properties:true\n")), MANY);
      peer.response(Peer.request(topic, "{\"bid\":1}", Peer.dataType("application/json"), Peer.lines(Peer.PROPERTIES, "region:eu\n")));
      Payload item = stream.next();
      same("{\"bid\":1}", item.getDataUtf8());
      same("eu", Peer.line(item, Peer.PROPERTIES, "region"));
    }
  }

  static void mistakes(String transport) throws Exception {
    try (Peer peer = Peer.open(transport)) {
      for (String route : new String[] {"a//b", "queue:", "service:a/*/b"}) same(INVALID, peer.refused(route, "x"));
      int nobody = peer.refused("service:" + unique("nobody"), "x");
      same(true, nobody == REJECTED || nobody == APPLICATION_ERROR);
      same("alive", peer.respond("echo", "alive"));
    }
  }

  static void whoMayWhat(String transport) throws Exception {
    try (Peer peer = Peer.as(transport, Peer.simple("limited", "limited-passcode"))) {
      peer.respond("open/" + unique("topic"), "allowed");
      int code = peer.refused("closed/" + unique("topic"), "x");
      same(true, code == REJECTED || code == APPLICATION_ERROR || code == INVALID);
      peer.respond("open/" + unique("topic"), "still there");
    }
  }

  static void wrongCredentials(String transport) throws Exception {
    try (Peer peer = Peer.as(transport, Peer.bearer("wrong"))) {
      Stream stream = peer.stream("echo", MANY);
      same(RejectedSetupException.class, stream.ended().getClass());
      peer.socket.onClose().onErrorComplete().block(Peer.WAIT);
    }
  }

  static void keepalives(String transport) throws Exception {
    try (Peer peer = Peer.open(transport, connector -> connector.keepAlive(Duration.ofMillis(100), Duration.ofSeconds(4)))) {
      // Five seconds of them: longer than a connection lives whose keepalives nobody answers.
      same(Collections.nCopies(50, "tick").toString(), peer.stream(Peer.request("echo", "tick"), 50).texts(50));
      same("alive", peer.respond("echo", "alive"));
    }
  }

  static void leases(String transport) throws Exception {
    try (Peer peer = Peer.open(transport, connector -> connector.lease((LeaseSpec lease) -> lease.maxPendingRequests(256)))) {
      same(numbers(40), Flux.range(0, 40).flatMapSequential(n -> peer.socket.requestResponse(Peer.request("echo", "" + n))).map(Payload::getDataUtf8).collectList().block(Peer.WAIT));
    }
  }

  static void metadataPush(String transport) throws Exception {
    try (Peer peer = Peer.open(transport)) {
      peer.socket.metadataPush(DefaultPayload.create(io.netty.buffer.Unpooled.EMPTY_BUFFER, Peer.composite(Peer.lines(Peer.PROPERTIES, "x:y\n")))).block(Peer.WAIT);
      same("alive", peer.respond("echo", "alive"));
    }
  }

  static void resumedStream(String transport) throws Exception {
    String topic = unique("topic");
    try (Peer peer = Peer.open(transport, Peer.resuming()); Peer other = Peer.open(transport)) {
      Stream stream = peer.stream(topic, MANY);
      peer.respond(topic, "ready");
      same("ready", stream.text());
      for (int round = 0; round < 5; round++) {
        peer.cut();
        for (int n = 0; n < 20; n++) other.respond(topic, n);
        same(numbers(20), stream.texts(20));
      }
    }
  }

  static void resumedRequests(String transport) throws Exception {
    try (Peer peer = Peer.open(transport, Peer.resuming())) {
      for (int n = 0; n < 20; n++) same("before", peer.respond("echo", "before"));
      for (int round = 0; round < 5; round++) {
        Mono<List<String>> answers =
            Flux.range(0, 50).flatMapSequential(n -> peer.socket.requestResponse(Peer.request("echo", "" + n))).map(Payload::getDataUtf8).collectList();
        var waiting = answers.toFuture();
        peer.cut();
        same(numbers(50), waiting.get(Peer.WAIT.toSeconds(), java.util.concurrent.TimeUnit.SECONDS));
      }
    }
  }

  static void resumedService(String transport) throws Exception {
    String service = unique("service");
    try (Peer server = Peer.open(transport, Peer.serving(exclaiming()).andThen(Peer.resuming())); Peer caller = Peer.open(transport)) {
      server.stream("serve:" + service, MANY).next();
      for (int round = 0; round < 3; round++) {
        server.cut();
        same(round + "!", caller.respond("service:" + service, round));
      }
    }
  }

  static void fiftyClients(String transport) throws Exception {
    String topic = unique("topic");
    List<Peer> crowd = new ArrayList<>();
    try {
      Peer.http("PUT", "/topics/" + topic, "ready");
      for (int n = 0; n < 50; n++) crowd.add(Peer.open(transport));
      List<Stream> streams = new ArrayList<>();
      for (Peer peer : crowd) streams.add(peer.stream(topic, MANY));
      for (Stream stream : streams) same("ready", stream.text());
      for (int n = 0; n < 10; n++) crowd.get(n).respond(topic, n);
      for (Stream stream : streams) same(numbers(10), stream.texts(10));
    } finally {
      for (Peer peer : crowd) peer.close();
    }
  }

  public static void main(String[] arguments) {
    Map<String, Conversation> conversations = new LinkedHashMap<>();
    conversations.put("publish and fetch", Main::publishAndFetch);
    conversations.put("snapshot then live", Main::snapshotThenLive);
    conversations.put("patterns", Main::patterns);
    conversations.put("conflation without credit", Main::creditConflates);
    conversations.put("cancel", Main::cancel);
    conversations.put("a queue", Main::queue);
    conversations.put("a publishing channel", Main::publishingChannel);
    conversations.put("echo", Main::echo);
    conversations.put("fragments", Main::fragments);
    conversations.put("a service", Main::service);
    conversations.put("a conversation", Main::conversation);
    conversations.put("the demand of a caller", Main::demand);
    conversations.put("properties and types", Main::properties);
    conversations.put("mistakes", Main::mistakes);
    conversations.put("who may what", Main::whoMayWhat);
    conversations.put("wrong credentials", Main::wrongCredentials);
    conversations.put("keepalives", Main::keepalives);
    conversations.put("leases", Main::leases);
    conversations.put("metadata push", Main::metadataPush);
    conversations.put("a resumed stream", Main::resumedStream);
    conversations.put("resumed requests", Main::resumedRequests);
    conversations.put("a resumed service", Main::resumedService);
    conversations.put("fifty clients", Main::fiftyClients);
    conversations.putAll(Transports.conversations());
    String only = arguments.length > 0 ? arguments[0] : "";
    int passed = 0;
    int failed = 0;
    for (String transport : new String[] {"tcp", "websocket"}) {
      for (Map.Entry<String, Conversation> one : conversations.entrySet()) {
        if (!one.getKey().contains(only)) continue;
        try {
          one.getValue().hold(transport);
          passed++;
          System.out.println("ok: " + one.getKey() + " by " + transport);
        } catch (Throwable problem) {
          failed++;
          System.out.println("not ok: " + one.getKey() + " by " + transport);
          problem.printStackTrace(System.out);
        }
      }
    }
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }
}
