/** WebSocket at `/tiderace`. */
import type { Transport, TransportEvents, WebSocketClass } from "./transport.js";
export declare function openWebSocket(base: URL, Socket: WebSocketClass, events: TransportEvents): Transport;
