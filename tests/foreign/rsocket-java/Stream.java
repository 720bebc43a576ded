import io.rsocket.Payload;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.reactivestreams.Subscription;
import reactor.core.publisher.BaseSubscriber;

/** What a request for several items is answered with: items wait in a queue, the end in a future. */
final class Stream extends BaseSubscriber<Payload> {
  /** "complete", or the error. */
  final CompletableFuture<Object> end = new CompletableFuture<>();

  private final LinkedBlockingQueue<Payload> items = new LinkedBlockingQueue<>();
  private final long first;

  Stream(long first) {
    this.first = first;
  }

  @Override
  protected void hookOnSubscribe(Subscription subscription) {
    request(first);
  }

  @Override
  protected void hookOnNext(Payload payload) {
    items.add(payload);
  }

  @Override
  protected void hookOnComplete() {
    end.complete("complete");
  }

  @Override
  protected void hookOnError(Throwable problem) {
    end.complete(problem);
  }

  Payload next() throws Exception {
    Payload found = items.poll(Peer.WAIT.toMillis(), TimeUnit.MILLISECONDS);
    if (found == null) throw new AssertionError("no item in " + Peer.WAIT + "; the end: " + end.getNow("none"));
    return found;
  }

  String text() throws Exception {
    return next().getDataUtf8();
  }

  List<String> texts(int count) throws Exception {
    List<String> found = new ArrayList<>();
    while (found.size() < count) found.add(text());
    return found;
  }

  Object ended() throws Exception {
    return end.get(Peer.WAIT.toMillis(), TimeUnit.MILLISECONDS);
  }

  int waiting() {
    return items.size();
  }
}
