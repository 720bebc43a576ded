import io.socket.client.Ack;
import io.socket.client.IO;
import io.socket.client.Manager;
import io.socket.client.Socket;
import java.lang.reflect.Field;
import java.net.URI;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import okhttp3.Dispatcher;
import okhttp3.OkHttpClient;
import org.json.JSONObject;

/** One client of io.socket:socket.io-client; what arrives waits in queues. Waits only bound failure. */
final class Peer implements AutoCloseable {
  static final String BASE = "http://" + System.getenv().getOrDefault("TIDERACE_STOMP", "127.0.0.1:7800");
  static final String TOKEN = System.getenv().getOrDefault("TIDERACE_TOKEN", "robot-secret");
  static final long WAIT_SECONDS = Long.parseLong(System.getenv().getOrDefault("TIDERACE_WAIT", "10"));
  private static final String[] EVENTS = {
    "connect", "connect_error", "disconnect", "message", "job", "request", "said", "ended", "problem", "chat"
  };

  /** Without this the client's HTTP library makes five requests at a time, however many clients poll. */
  private static final OkHttpClient HTTP = http();

  final Socket socket;
  private final Map<String, BlockingQueue<Object[]>> inboxes = new ConcurrentHashMap<>();

  Peer(String mode, String namespace, Map<String, String> auth, boolean reconnection) {
    IO.Options options = new IO.Options();
    options.forceNew = true;
    options.reconnection = reconnection;
    options.reconnectionDelay = 100;
    options.transports = mode.equals("upgrade") ? new String[] {"polling", "websocket"} : new String[] {mode};
    options.upgrade = mode.equals("upgrade");
    options.auth = auth;
    options.callFactory = HTTP;
    options.webSocketFactory = HTTP;
    socket = IO.socket(URI.create(BASE + namespace), options);
    for (String event : EVENTS) {
      BlockingQueue<Object[]> inbox = new LinkedBlockingQueue<>();
      inboxes.put(event, inbox);
      socket.on(event, inbox::add);
    }
    socket.connect();
  }

  private static OkHttpClient http() {
    Dispatcher dispatcher = new Dispatcher();
    dispatcher.setMaxRequests(1000);
    dispatcher.setMaxRequestsPerHost(1000);
    return new OkHttpClient.Builder().dispatcher(dispatcher).readTimeout(1, TimeUnit.MINUTES).build();
  }

  static Peer open(String mode) throws Exception {
    return open(mode, "/", false);
  }

  static Peer open(String mode, String namespace, boolean reconnection) throws Exception {
    Peer peer = new Peer(mode, namespace, Map.of("token", TOKEN), reconnection);
    peer.next("connect");
    return peer;
  }

  Object[] next(String event) throws Exception {
    Object[] got = inboxes.get(event).poll(WAIT_SECONDS, TimeUnit.SECONDS);
    if (got == null) throw new AssertionError("no " + event + " in " + WAIT_SECONDS + " s");
    return got;
  }

  Object value() throws Exception {
    return next("message")[1];
  }

  /** Emits and waits for the ack. */
  JSONObject ask(String event, Object... arguments) throws Exception {
    CompletableFuture<Object[]> answer = new CompletableFuture<>();
    socket.emit(event, arguments, (Ack) answer::complete);
    return (JSONObject) answer.get(WAIT_SECONDS, TimeUnit.SECONDS)[0];
  }

  /** The same, and it must be done. */
  JSONObject done(String event, Object... arguments) throws Exception {
    JSONObject answer = ask(event, arguments);
    if (!answer.getBoolean("ok")) throw new AssertionError(event + ": " + answer);
    return answer;
  }

  /** Ends the connection below the client. */
  void cut() throws Exception {
    Field engine = Manager.class.getDeclaredField("engine");
    engine.setAccessible(true);
    ((io.socket.engineio.client.Socket) engine.get(socket.io())).close();
  }

  @Override
  public void close() {
    socket.disconnect();
    socket.io().off();
  }
}
