import io.netty.buffer.Unpooled;
import io.rsocket.Payload;
import io.rsocket.RSocket;
import io.rsocket.RSocketErrorException;
import io.rsocket.core.RSocketConnector;
import io.rsocket.core.Resume;
import io.rsocket.exceptions.RejectedSetupException;
import io.rsocket.resume.InMemoryResumableFramesStore;
import io.rsocket.util.DefaultPayload;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.retry.Retry;

/**
 * rsocket-java's own transport scenarios, plain, in fragments, with a connection that is cut again and again, and both.
 *
 * <p>Its tests hold them between a client and a responder of their own. Here the server is between the two: it sends payloads
 * back by its route `echo`, and what it cannot make up (ten thousand items, an end, an error) comes from a service that another
 * client of rsocket-java serves.
 */
final class Transports {
  private static final long MANY = Long.MAX_VALUE;
  private static final Duration LONG = Peer.WAIT.multipliedBy(3);
  private static final String DATA = "test-data";
  private static final String LARGE = "large test-data ".repeat(4_000);
  /** Items that may wait for their caller's demand: the option rsocket.waiting_max is above it. */
  private static final int WAITING = 1_000;
  /** Below the server's limit for metadata, 16 KiB. */
  private static final String LARGE_METADATA = "m".repeat(15_000);

  private interface Scenario {
    void hold(Setting setting) throws Exception;
  }

  /** How the client is made. */
  private record Mode(String name, boolean fragments, boolean resumes) {
    void apply(RSocketConnector connector) {
      if (fragments) connector.fragment(300);
      if (resumes) {
        connector.resume(
            new Resume()
                .storeFactory(token -> new InMemoryResumableFramesStore("client", token, Integer.MAX_VALUE))
                .retry(Retry.fixedDelay(100, Duration.ofMillis(20)))
                .streamTimeout(LONG));
      }
    }
  }

  private static final List<Mode> MODES =
      List.of(
          new Mode("plain", false, false),
          new Mode("fragments", true, false),
          new Mode("resumed", false, true),
          new Mode("resumed, fragments", true, true));

  /** One scenario under way: its transport, how its client is made, and that client. */
  private record Setting(String transport, Mode mode, Peer peer) {
    /** Where the mode wants that, ends the connection below the client after so many items. */
    <T> Flux<T> cutting(Flux<T> items, int every) {
      if (!mode.resumes) return items;
      AtomicInteger seen = new AtomicInteger();
      return items.doOnNext(
          item -> {
            if (seen.incrementAndGet() % every == 0) peer.cut();
          });
    }
  }

  /** All of them, by name; each opens its client anew. */
  static Map<String, Main.Conversation> conversations() {
    Map<String, Scenario> scenarios = new LinkedHashMap<>();
    scenarios.put("10 fire-and-forgets", setting -> fireAndForget(setting, DATA));
    scenarios.put("10 large fire-and-forgets", setting -> fireAndForget(setting, LARGE));
    scenarios.put("a channel of nothing", Transports::channelOfNothing);
    scenarios.put("a channel of 1", setting -> channel(setting, 1, Integer.MAX_VALUE));
    scenarios.put("a channel of 3, asked for exactly", Transports::channelOfThree);
    scenarios.put("a channel of 512", setting -> channel(setting, 512, Integer.MAX_VALUE));
    scenarios.put("a channel of 20,000 in steps of 8", setting -> channel(setting, 20_000, 8));
    scenarios.put("a channel of 50 large items", Transports::largeChannel);
    scenarios.put("64 channels of 256, 12 at a time", Transports::manyChannels);
    for (int count : new int[] {1, 10, 100, 10_000}) {
      scenarios.put(count + " requests", setting -> requests(setting, count, DATA, 256));
    }
    scenarios.put("50 large requests", setting -> requests(setting, 50, LARGE, 4));
    scenarios.put("a stream of 10,000", Transports::wholeStream);
    scenarios.put("5 of a stream", Transports::partOfStream);
    scenarios.put("a stream in portions", Transports::portions);
    scenarios.put("ends of streams", Transports::ends);
    scenarios.put("items before an error", Transports::itemsThenError);
    scenarios.put("the end of a stream without demand", Transports::endWithoutDemand);
    scenarios.put("the end of what a caller says", Transports::endOfCaller);
    Map<String, Main.Conversation> found = new LinkedHashMap<>();
    for (Mode mode : MODES) {
      scenarios.forEach((name, scenario) -> found.put(name + " (" + mode.name + ")", transport -> hold(transport, mode, scenario)));
    }
    found.put("10 metadata pushes", transport -> metadataPush(transport, "test-metadata"));
    found.put("10 large metadata pushes", transport -> metadataPush(transport, LARGE_METADATA));
    found.put("a keep-alive faster than is taken", Transports::hastyKeepalive);
    return found;
  }

  private static void hold(String transport, Mode mode, Scenario scenario) throws Exception {
    try (Peer peer = Peer.open(transport, mode::apply)) {
      scenario.hold(new Setting(transport, mode, peer));
    }
  }

  // Requests.

  /** Each fifth without metadata, each fifth with empty metadata; what has no route comes back with its metadata. */
  private static Payload payload(int number, String data) {
    if (number % 5 == 0) return DefaultPayload.create(data);
    if (number % 5 == 1) return DefaultPayload.create(data, "");
    return DefaultPayload.create(Unpooled.copiedBuffer(data, StandardCharsets.UTF_8), Peer.composite(Peer.lines(Peer.PROPERTIES, "note:" + number + "\n")));
  }

  private static int checked(int number, String data, Payload found) {
    Main.same(data, found.getDataUtf8());
    Main.same(number % 5 < 2 ? null : number, found.hasMetadata() ? Peer.line(found, Peer.PROPERTIES, "note") : null);
    return number;
  }

  private static void requests(Setting setting, int count, String data, int atOnce) {
    Flux<Integer> answers =
        Flux.range(1, count)
            .flatMap(n -> setting.peer.socket.requestResponse(payload(n, data)).map(found -> checked(n, data, found)), atOnce);
    List<Integer> found = setting.cutting(answers, count < 1_000 ? 20 : 2_000).collectList().block(LONG);
    Main.same(IntStream.rangeClosed(1, count).boxed().collect(Collectors.toList()), found.stream().sorted().collect(Collectors.toList()));
  }

  private static void fireAndForget(Setting setting, String data) throws Exception {
    LinkedBlockingQueue<String> observed = new LinkedBlockingQueue<>();
    RSocket responder =
        new RSocket() {
          @Override
          public Flux<Payload> requestChannel(Publisher<Payload> payloads) {
            return Flux.from(payloads).doOnNext(payload -> observed.add(payload.getDataUtf8())).ignoreElements().thenMany(Flux.empty());
          }
        };
    serving(
        setting,
        responder,
        service -> {
          Flux.range(0, 10).flatMap(n -> setting.peer.socket.fireAndForget(Peer.request("service:" + service, data + n))).blockLast(LONG);
          if (setting.mode.resumes) setting.peer.cut();
          for (int n = 0; n < 10; n++) Main.same(data + n, observed.poll(Peer.WAIT.toMillis(), TimeUnit.MILLISECONDS));
        });
  }

  private static void metadataPush(String transport, String metadata) throws Exception {
    try (Peer peer = Peer.open(transport)) {
      Flux.range(0, 10)
          .flatMap(n -> peer.socket.metadataPush(DefaultPayload.create(Unpooled.EMPTY_BUFFER, Peer.composite(Peer.lines(Peer.PROPERTIES, "x:" + metadata + "\n")))))
          .blockLast(LONG);
      Main.same("alive", peer.respond("echo", "alive"));
    }
  }

  /** Told at once, not by the end of the connection after a second. */
  private static void hastyKeepalive(String transport) throws Exception {
    try (Peer peer = Peer.open(transport, connector -> connector.keepAlive(Duration.ofMillis(10), Duration.ofHours(1)))) {
      Main.same(RejectedSetupException.class, peer.stream("echo", MANY).ended().getClass());
    }
  }

  // Channels.

  private static Flux<Payload> items(String route, int count, String data) {
    return Flux.range(0, count).map(n -> n == 0 ? Peer.request(route, data + n) : Peer.item(data + n));
  }

  private static void counted(Flux<Payload> found, int count, String data) {
    AtomicInteger next = new AtomicInteger();
    found.doOnNext(item -> Main.same(data + next.getAndIncrement(), item.getDataUtf8())).blockLast(LONG);
    Main.same(count, next.get());
  }

  private static void channelOfNothing(Setting setting) throws Exception {
    Object end = setting.peer.channel(Flux.empty()).ended();
    Main.same(CancellationException.class, end.getClass());
    Main.same("alive", setting.peer.respond("echo", "alive"));
  }

  private static void channel(Setting setting, int count, int rate) {
    Flux<Payload> found = setting.peer.socket.requestChannel(items("echo", count, ""));
    counted(setting.cutting(rate < count ? found.limitRate(rate) : found, Math.max(count / 4, 100)), count, "");
  }

  private static void channelOfThree(Setting setting) throws Exception {
    AtomicLong wanted = new AtomicLong();
    Stream found = new Stream(3);
    setting.peer.socket.requestChannel(items("echo", 3, "").doOnRequest(wanted::addAndGet)).subscribe(found);
    Main.same("[0, 1, 2]", found.texts(3));
    Main.same("complete", found.ended());
    Main.same(3, wanted.get());
  }

  private static void largeChannel(Setting setting) {
    Flux<Payload> found = setting.peer.socket.requestChannel(items("echo", 50, LARGE)).limitRate(4);
    counted(setting.cutting(found, 20), 50, LARGE);
  }

  private static void manyChannels(Setting setting) {
    AtomicInteger done = new AtomicInteger();
    Flux<Integer> all =
        Flux.range(0, 64)
            .flatMap(
                n ->
                    Mono.fromCallable(
                            () -> {
                              counted(setting.peer.socket.requestChannel(items("echo", 256, n + ":")).limitRate(8), 256, n + ":");
                              return done.incrementAndGet();
                            })
                        .subscribeOn(Schedulers.boundedElastic()),
                12);
    setting.cutting(all, 16).blockLast(LONG);
    Main.same(64, done.get());
  }

  // Streams of a service.

  private interface Use {
    void of(String service) throws Exception;
  }

  /** Serves by a request-channel, so that every exchange comes as one. */
  private static void serving(Setting setting, RSocket responder, Use use) throws Exception {
    String service = Main.unique("service");
    try (Peer server = Peer.open(setting.transport, Peer.serving(responder))) {
      server.channel(Flux.concat(Flux.just(Peer.request("serve:" + service)), Flux.never())).next();
      use.of(service);
    }
  }

  /** A responder whose answer to the first word, a number, are so many items. */
  private static RSocket counting() {
    return answering(word -> Flux.range(0, Integer.parseInt(word)).map(Peer::item));
  }

  private static RSocket answering(java.util.function.Function<String, Flux<Payload>> answer) {
    return new RSocket() {
      @Override
      public Flux<Payload> requestChannel(Publisher<Payload> payloads) {
        return Flux.from(payloads).switchOnFirst((first, all) -> first.hasValue() ? answer.apply(first.get().getDataUtf8()) : Flux.from(all));
      }
    };
  }

  private static void wholeStream(Setting setting) throws Exception {
    serving(
        setting,
        counting(),
        service -> {
          Flux<Payload> found = setting.peer.socket.requestStream(Peer.request("service:" + service, "10000"));
          counted(setting.cutting(found, 2_500), 10_000, "");
        });
  }

  private static void partOfStream(Setting setting) throws Exception {
    serving(
        setting,
        counting(),
        service -> counted(setting.peer.socket.requestStream(Peer.request("service:" + service, "" + WAITING)).take(5), 5, ""));
  }

  private static void portions(Setting setting) throws Exception {
    serving(
        setting,
        counting(),
        service -> {
          Stream found = setting.peer.stream(Peer.request("service:" + service, "" + WAITING), 5);
          Main.same("[0, 1, 2, 3, 4]", found.texts(5));
          Main.same("alive", setting.peer.respond("echo", "alive"));
          Main.same(0, found.waiting());
          if (setting.mode.resumes) setting.peer.cut();
          found.request(5);
          Main.same("[5, 6, 7, 8, 9]", found.texts(5));
          found.cancel();
        });
  }

  /** Nothing comes besides the items, however many there are: an end is no item. */
  private static void ends(Setting setting) throws Exception {
    serving(
        setting,
        counting(),
        service -> {
          for (int count = 0; count <= 5; count++) {
            Stream found = setting.peer.stream(Peer.request("service:" + service, "" + count), MANY);
            Main.same("complete", found.ended());
            Main.same(count, found.waiting());
            Main.same(Main.numbers(count), found.texts(count));
          }
        });
  }

  private static void itemsThenError(Setting setting) throws Exception {
    RSocket responder = answering(word -> Flux.concat(Flux.range(0, Integer.parseInt(word)).map(Peer::item), Flux.error(new IllegalStateException("enough"))));
    serving(
        setting,
        responder,
        service -> {
          for (int count = 0; count <= 5; count++) {
            Stream found = setting.peer.stream(Peer.request("service:" + service, "" + count), MANY);
            Object end = found.ended();
            if (!(end instanceof RSocketErrorException)) throw new AssertionError("it ended with " + end);
            Main.same(count, found.waiting());
            Main.same(Main.numbers(count), found.texts(count));
          }
        });
  }

  private static void endWithoutDemand(Setting setting) throws Exception {
    serving(
        setting,
        counting(),
        service -> {
          Stream found = setting.peer.stream(Peer.request("service:" + service, "4"), 2);
          Main.same("[0, 1]", found.texts(2));
          found.request(2);
          Main.same("[2, 3]", found.texts(2));
          Main.same("complete", found.ended());
        });
  }

  /** The responder hears all that the caller says, then its end, and nothing else. */
  private static void endOfCaller(Setting setting) throws Exception {
    RSocket responder =
        new RSocket() {
          @Override
          public Flux<Payload> requestChannel(Publisher<Payload> payloads) {
            return Flux.from(payloads).map(Payload::getDataUtf8).collectList().map(words -> Peer.item(words)).flux();
          }
        };
    serving(
        setting,
        responder,
        service -> {
          for (int count = 1; count <= 3; count++) {
            Stream found = setting.peer.channel(items("service:" + service, count, ""));
            Main.same(Main.numbers(count), found.text());
            Main.same("complete", found.ended());
            Main.same(0, found.waiting());
          }
        });
  }
}
