import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.rsocket.Closeable;
import io.rsocket.Payload;
import io.rsocket.RSocket;
import io.rsocket.SocketAcceptor;
import io.rsocket.core.RSocketServer;
import io.rsocket.frame.decoder.PayloadDecoder;
import io.rsocket.transport.ServerTransport;
import io.rsocket.transport.netty.server.TcpServerTransport;
import io.rsocket.transport.netty.server.WebsocketServerTransport;
import io.rsocket.util.ByteBufPayload;
import java.time.Duration;
import org.reactivestreams.Publisher;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * An rsocket-java server as its documentation would write it, without copies where it can do without: what comes
 * goes back.
 *
 * <p>Usage: java Echo [port] [milliseconds between a stream's messages, 0 for as many as are wanted] [tcp|ws]
 */
public final class Echo implements RSocket {
  private final Duration interval;

  private Echo(Duration interval) {
    this.interval = interval;
  }

  public static void main(String[] arguments) {
    int port = Integer.parseInt(argument(arguments, 0, "7002"));
    Echo echo = new Echo(Duration.ofMillis(Long.parseLong(argument(arguments, 1, "1000"))));
    ServerTransport<? extends Closeable> transport =
        argument(arguments, 2, "tcp").equals("ws")
            ? WebsocketServerTransport.create("127.0.0.1", port)
            : TcpServerTransport.create("127.0.0.1", port);
    RSocketServer.create(SocketAcceptor.with(echo))
        .payloadDecoder(PayloadDecoder.ZERO_COPY)
        .bind(transport)
        .block()
        .onClose()
        .block();
  }

  private static String argument(String[] arguments, int at, String usual) {
    return arguments.length > at ? arguments[at] : usual;
  }

  @Override
  public Mono<Payload> requestResponse(Payload request) {
    return Mono.just(request);
  }

  @Override
  public Flux<Payload> requestStream(Payload request) {
    // One copy for the whole stream, outside of the pool; its messages are views of it.
    ByteBuf kept = Unpooled.copiedBuffer(request.sliceData());
    request.release();
    if (interval.isZero()) {
      return Flux.generate(sink -> sink.next(ByteBufPayload.create(kept.retainedDuplicate())));
    }
    return Flux.interval(interval)
        .onBackpressureDrop()
        .map(tick -> ByteBufPayload.create(kept.retainedDuplicate()));
  }

  @Override
  public Flux<Payload> requestChannel(Publisher<Payload> requests) {
    return Flux.from(requests);
  }
}
