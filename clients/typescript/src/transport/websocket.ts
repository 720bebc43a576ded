/** WebSocket at `/tiderace`. */
import type { Transport, TransportEvents, WebSocketClass } from "./transport.js";

export function openWebSocket(base: URL, Socket: WebSocketClass, events: TransportEvents): Transport {
  const url = new URL("tiderace", base);
  url.protocol = base.protocol.replace("http", "ws");
  const socket = new Socket(url.href, ["tiderace.v1"]);
  let over = false;
  const silence = () => {
    over = true;
    socket.onopen = socket.onmessage = socket.onclose = null;
    // `ws` throws errors that nobody listens to.
    socket.onerror = () => {};
  };
  const closed = (reason: string) => {
    if (over) return;
    silence();
    events.closed(reason);
  };
  socket.binaryType = "arraybuffer";
  socket.onopen = () => events.opened();
  socket.onmessage = ({ data }: { data: unknown }) => {
    if (data instanceof ArrayBuffer) events.received(new Uint8Array(data), data.byteLength);
  };
  socket.onclose = ({ code, reason }: { code: number; reason: string }) =>
    closed(reason || `the WebSocket was closed (${code})`);
  socket.onerror = () => {};
  return {
    get buffered() {
      return socket.bufferedAmount;
    },
    send: (message) => socket.send(message),
    close: () => socket.close(1000),
    cut() {
      silence();
      // Ends the connection at once where that can be done; browsers cannot.
      const { terminate } = socket as { terminate?: () => void };
      if (terminate) terminate.call(socket);
      else socket.close();
    },
  };
}
