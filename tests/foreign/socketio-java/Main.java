import io.socket.client.Ack;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.json.JSONArray;
import org.json.JSONObject;

/** Conversations of the Java client with a running server; the last line counts them. */
public final class Main {
  private interface Conversation {
    void hold(String mode) throws Exception;
  }

  private static int serial = 0;

  private static String unique(String prefix) {
    return prefix + "-java-" + ProcessHandle.current().pid() + "-" + ++serial;
  }

  private static void same(Object expected, Object got) {
    if (!String.valueOf(expected).equals(String.valueOf(got))) {
      throw new AssertionError("expected " + expected + ", got " + got);
    }
  }

  private static JSONObject json(String text) throws Exception {
    return new JSONObject(text);
  }

  static void snapshotThenLive(String mode) throws Exception {
    String topic = unique("topic");
    try (Peer publisher = Peer.open(mode); Peer subscriber = Peer.open(mode)) {
      publisher.done("publish", topic, json("{\"bid\":1}"), json("{\"retain\":true}"));
      subscriber.done("subscribe", topic, json("{\"snapshot\":true}"));
      for (int n = 0; n < 50; n++) publisher.socket.emit("publish", topic, n);
      Object[] first = subscriber.next("message");
      same(topic, first[0]);
      same("{\"bid\":1}", first[1]);
      for (int n = 0; n < 50; n++) same(n, subscriber.value());
    }
  }

  static void patterns(String mode) throws Exception {
    String topic = unique("topic");
    try (Peer peer = Peer.open(mode)) {
      peer.done("subscribe", topic + "/*/price");
      peer.done("publish", topic + "/fx/volume", 1);
      peer.done("publish", topic + "/fx/price", 2);
      same(2, peer.value());
      peer.done("unsubscribe", topic + "/*/price");
      peer.done("subscribe", topic + "/last");
      peer.done("publish", topic + "/fx/price", 3);
      peer.done("publish", topic + "/last", 4);
      same(4, peer.value());
    }
  }

  static void values(String mode) throws Exception {
    String topic = unique("grüße 🌊");
    byte[] bytes = new byte[1000];
    for (int n = 0; n < bytes.length; n++) bytes[n] = (byte) n;
    try (Peer peer = Peer.open(mode)) {
      peer.done("subscribe", topic);
      peer.done("publish", topic, "grüße 🌊");
      peer.done("publish", topic, new JSONArray("[1,null,{\"a\":\"🌊\"}]"));
      peer.done("publish", topic, bytes);
      JSONObject nested = new JSONObject();
      nested.put("bytes", bytes);
      peer.done("publish", topic, nested);
      same("grüße 🌊", peer.value());
      same("[1,null,{\"a\":\"🌊\"}]", peer.value());
      same(true, Arrays.equals(bytes, (byte[]) peer.value()));
      same(true, Arrays.equals(bytes, (byte[]) ((JSONObject) peer.value()).get("bytes")));
    }
  }

  static void halfAMegabyte(String mode) throws Exception {
    String topic = unique("topic");
    String text = "0123456789abcde🌊".repeat(26_000);
    byte[] bytes = new byte[500_000];
    try (Peer peer = Peer.open(mode)) {
      peer.done("subscribe", topic);
      peer.done("publish", topic, text);
      peer.done("publish", topic, bytes);
      same(true, text.equals(peer.value()));
      same(bytes.length, ((byte[]) peer.value()).length);
    }
  }

  static void queue(String mode) throws Exception {
    String queue = unique("queue");
    try (Peer peer = Peer.open(mode)) {
      peer.done("send", queue, "a");
      peer.done("send", queue, "b");
      peer.done("receive", queue, json("{\"prefetch\":1}"));
      Object[] job = peer.next("job");
      same("a", job[1]);
      ((Ack) job[3]).call(json("{\"reject\":true}"));
      List<String> rest = new ArrayList<>();
      for (int n = 0; n < 2; n++) {
        job = peer.next("job");
        rest.add(job[1] + " " + ((JSONObject) job[2]).getBoolean("redelivered"));
        ((Ack) job[3]).call();
      }
      rest.sort(null);
      same("[a true, b false]", rest);
    }
  }

  static void service(String mode) throws Exception {
    String service = unique("service");
    try (Peer caller = Peer.open(mode); Peer server = Peer.open(mode)) {
      server.socket.on("request", arguments -> ((Ack) arguments[3]).call((Integer) arguments[1] * 2));
      server.done("serve", service);
      for (int n = 0; n < 10; n++) same(n * 2, caller.done("call", service, n).getInt("value"));
      server.done("unserve", service);
      same("no-responder", caller.ask("call", service, 1, json("{\"timeout\":500}")).getString("code"));
    }
  }

  static void mistakes(String mode) throws Exception {
    try (Peer peer = Peer.open(mode)) {
      same("bad-destination", peer.ask("publish", "a//b", 1).getString("code"));
      same("unexpected-frame", peer.ask("nonsense", 1).getString("code"));
      peer.done("publish", unique("topic"), 1);
    }
    try (Peer peer = new Peer(mode, "/", Map.of("token", "wrong"), false)) {
      JSONObject problem = (JSONObject) peer.next("connect_error")[0];
      same("login-failed", problem.getJSONObject("data").getString("code"));
    }
    try (Peer peer = new Peer(mode, "/nowhere", Map.of("token", Peer.TOKEN), false)) {
      same("Invalid namespace", ((JSONObject) peer.next("connect_error")[0]).getString("message"));
    }
  }

  static void rooms(String mode) throws Exception {
    String room = unique("room");
    try (Peer one = Peer.open(mode, "/app", false); Peer two = Peer.open(mode, "/app", false)) {
      one.done("join", room);
      two.done("to", room, "chat", "hi 🌊");
      same("hi 🌊", one.next("chat")[0]);
    }
  }

  static void comesBack(String mode) throws Exception {
    String topic = unique("topic");
    try (Peer peer = Peer.open(mode, "/", true)) {
      peer.cut();
      peer.next("disconnect");
      peer.next("connect");
      peer.done("subscribe", topic);
      peer.done("publish", topic, "here");
      same("here", peer.value());
    }
  }

  static void fiftyClients(String mode) throws Exception {
    String topic = unique("topic");
    List<Peer> crowd = new ArrayList<>();
    try {
      for (int n = 0; n < 50; n++) crowd.add(new Peer(mode, "/", Map.of("token", Peer.TOKEN), false));
      for (Peer peer : crowd) peer.next("connect");
      for (Peer peer : crowd) peer.done("subscribe", topic);
      for (int n = 0; n < 10; n++) crowd.get(0).done("publish", topic, n);
      for (Peer peer : crowd) for (int n = 0; n < 10; n++) same(n, peer.value());
    } finally {
      for (Peer peer : crowd) peer.close();
    }
  }

  public static void main(String[] arguments) {
    Map<String, Conversation> conversations = new java.util.LinkedHashMap<>();
    conversations.put("snapshot then live", Main::snapshotThenLive);
    conversations.put("patterns", Main::patterns);
    conversations.put("values", Main::values);
    conversations.put("half a megabyte", Main::halfAMegabyte);
    conversations.put("a queue", Main::queue);
    conversations.put("a service", Main::service);
    conversations.put("mistakes", Main::mistakes);
    conversations.put("rooms", Main::rooms);
    conversations.put("comes back", Main::comesBack);
    conversations.put("fifty clients", Main::fiftyClients);
    int passed = 0;
    int failed = 0;
    for (String mode : new String[] {"polling", "websocket", "upgrade"}) {
      for (Map.Entry<String, Conversation> one : conversations.entrySet()) {
        try {
          one.getValue().hold(mode);
          passed++;
          System.out.println("ok: " + one.getKey() + " by " + mode);
        } catch (Throwable problem) {
          failed++;
          System.out.println("not ok: " + one.getKey() + " by " + mode);
          problem.printStackTrace(System.out);
        }
      }
    }
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }
}
