import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.CompositeByteBuf;
import io.netty.buffer.Unpooled;
import io.rsocket.Payload;
import io.rsocket.RSocket;
import io.rsocket.RSocketErrorException;
import io.rsocket.SocketAcceptor;
import io.rsocket.core.RSocketConnector;
import io.rsocket.core.Resume;
import io.rsocket.metadata.AuthMetadataCodec;
import io.rsocket.metadata.CompositeMetadata;
import io.rsocket.metadata.CompositeMetadataCodec;
import io.rsocket.metadata.MimeTypeMetadataCodec;
import io.rsocket.metadata.TaggingMetadataCodec;
import io.rsocket.metadata.WellKnownMimeType;
import io.rsocket.transport.ClientTransport;
import io.rsocket.transport.netty.client.TcpClientTransport;
import io.rsocket.transport.netty.client.WebsocketClientTransport;
import io.rsocket.util.DefaultPayload;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import reactor.core.publisher.Flux;
import reactor.netty.Connection;
import reactor.util.retry.Retry;

/** One client of rsocket-java, as short words for conversations. Every wait only bounds failure. */
final class Peer implements AutoCloseable {
  static final String[] ADDRESS = System.getenv().getOrDefault("TIDERACE_STOMP", "127.0.0.1:7800").split(":");
  static final String TOKEN = System.getenv().getOrDefault("TIDERACE_TOKEN", "robot-secret");
  static final Duration WAIT = Duration.ofSeconds(Long.parseLong(System.getenv().getOrDefault("TIDERACE_WAIT", "10")));
  static final String COMPOSITE = WellKnownMimeType.MESSAGE_RSOCKET_COMPOSITE_METADATA.getString();
  static final String PROPERTIES = "message/x.tiderace.properties.v0";
  static final String OPTIONS = "message/x.tiderace.options.v0";
  static final String MESSAGE = "message/x.tiderace.message.v0";
  private static final ByteBufAllocator ALLOCATOR = ByteBufAllocator.DEFAULT;
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  final RSocket socket;
  private final List<Connection> connections = new CopyOnWriteArrayList<>();

  private Peer(String transport, ByteBuf auth, Consumer<RSocketConnector> more) {
    RSocketConnector connector =
        RSocketConnector.create()
            .metadataMimeType(COMPOSITE)
            .dataMimeType("text/plain")
            .keepAlive(Duration.ofSeconds(1), Duration.ofSeconds(20))
            .setupPayload(DefaultPayload.create(Unpooled.EMPTY_BUFFER, composite(entry(WellKnownMimeType.MESSAGE_RSOCKET_AUTHENTICATION, auth))));
    more.accept(connector);
    socket = connector.connect(transport(transport)).block(WAIT);
  }

  static Peer open(String transport) {
    return open(transport, connector -> {});
  }

  static Peer open(String transport, Consumer<RSocketConnector> more) {
    return new Peer(transport, bearer(TOKEN), more);
  }

  static Peer as(String transport, ByteBuf auth) {
    return new Peer(transport, auth, connector -> {});
  }

  static Consumer<RSocketConnector> serving(RSocket responder) {
    return connector -> connector.acceptor(SocketAcceptor.with(responder));
  }

  static Consumer<RSocketConnector> resuming() {
    return connector -> connector.resume(new Resume().retry(Retry.fixedDelay(100, Duration.ofMillis(50))).streamTimeout(WAIT));
  }

  private ClientTransport transport(String kind) {
    String host = ADDRESS[0];
    int port = Integer.parseInt(ADDRESS[1]);
    if (kind.equals("tcp")) {
      return TcpClientTransport.create(reactor.netty.tcp.TcpClient.newConnection().host(host).port(port).doOnConnected(connections::add));
    }
    return WebsocketClientTransport.create(
        reactor.netty.http.client.HttpClient.newConnection().host(host).port(port).doOnConnected(connections::add), "/rsocket");
  }

  /** Ends the connection below the client, as a network does. */
  void cut() {
    for (Connection connection : connections) connection.channel().close();
  }

  // Metadata.

  /** What adds an entry to composite metadata. */
  interface Entry extends Consumer<CompositeByteBuf> {}

  static Entry entry(WellKnownMimeType type, ByteBuf content) {
    return to -> CompositeMetadataCodec.encodeAndAddMetadata(to, ALLOCATOR, type, content);
  }

  static Entry lines(String type, String lines) {
    ByteBuf content = Unpooled.copiedBuffer(lines, StandardCharsets.UTF_8);
    return to -> CompositeMetadataCodec.encodeAndAddMetadata(to, ALLOCATOR, type, content);
  }

  static Entry dataType(String type) {
    ByteBuf content = MimeTypeMetadataCodec.encode(ALLOCATOR, type);
    return entry(WellKnownMimeType.MESSAGE_RSOCKET_MIMETYPE, content);
  }

  static ByteBuf composite(Entry... entries) {
    CompositeByteBuf found = ALLOCATOR.compositeBuffer();
    for (Entry one : entries) one.accept(found);
    return found;
  }

  static ByteBuf bearer(String token) {
    return AuthMetadataCodec.encodeBearerMetadata(ALLOCATOR, token.toCharArray());
  }

  static ByteBuf simple(String name, String password) {
    return AuthMetadataCodec.encodeSimpleMetadata(ALLOCATOR, name.toCharArray(), password.toCharArray());
  }

  /** A request: its route, its data (or none), and more entries of metadata. */
  static Payload request(String route, byte[] data, Entry... more) {
    Entry[] entries = new Entry[more.length + 1];
    entries[0] = entry(WellKnownMimeType.MESSAGE_RSOCKET_ROUTING, TaggingMetadataCodec.createTaggingContent(ALLOCATOR, List.of(route)));
    System.arraycopy(more, 0, entries, 1, more.length);
    return DefaultPayload.create(Unpooled.wrappedBuffer(data), composite(entries));
  }

  static Payload request(String route, String data, Entry... more) {
    return request(route, data.getBytes(StandardCharsets.UTF_8), more);
  }

  static Payload request(String route) {
    return request(route, "");
  }

  static Payload item(Object data) {
    return DefaultPayload.create(String.valueOf(data));
  }

  /** What an item says by that name in lines of that type, or null. */
  static String line(Payload payload, String type, String name) {
    for (CompositeMetadata.Entry one : new CompositeMetadata(payload.metadata(), false)) {
      if (!type.equals(one.getMimeType())) continue;
      for (String line : one.getContent().toString(StandardCharsets.UTF_8).split("\n")) {
        if (line.startsWith(name + ":")) return line.substring(name.length() + 1);
      }
    }
    return null;
  }

  // Requests.

  Payload response(Payload request) {
    return socket.requestResponse(request).block(WAIT);
  }

  /** The text of a response; empty if there is none. */
  String respond(String route, Object data) {
    Payload found = response(request(route, String.valueOf(data)));
    return found == null ? "" : found.getDataUtf8();
  }

  int refused(String route, String data) {
    return refused(request(route, data));
  }

  /** The error code of a request that must fail. */
  int refused(Payload request) {
    try {
      response(request);
    } catch (RSocketErrorException error) {
      return error.errorCode();
    }
    throw new AssertionError("it was not refused");
  }

  void fire(String route, Object data) {
    socket.fireAndForget(request(route, String.valueOf(data))).block(WAIT);
  }

  Stream stream(String route, long n) {
    return stream(request(route), n);
  }

  Stream stream(Payload request, long n) {
    Stream found = new Stream(n);
    socket.requestStream(request).subscribe(found);
    return found;
  }

  Stream channel(Flux<Payload> items) {
    Stream found = new Stream(Long.MAX_VALUE);
    socket.requestChannel(items).subscribe(found);
    return found;
  }

  /** Another protocol: plain HTTP. */
  static String http(String method, String path, String body) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://" + String.join(":", ADDRESS) + path))
            .method(method, HttpRequest.BodyPublishers.ofString(body))
            .header("Authorization", "Bearer " + TOKEN)
            .timeout(WAIT)
            .build();
    HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
    if (answer.statusCode() >= 300) throw new AssertionError(method + " " + path + ": " + answer.statusCode() + " " + answer.body());
    return answer.body();
  }

  @Override
  public void close() {
    socket.dispose();
    cut();
  }
}
