/** Tiderace: live topics, queues and services, for browsers and Node. */
import { Client } from "./client.js";
import type { Addressed, ConnectOptions } from "./options.js";

/**
 * Connects, and stays connected until `close`. The address is that of the server, such as
 * `https://live.example.org`; in a page, by default the page's own. Of several it begins at one at random, and
 * comes back at any.
 */
export function connect(address?: Addressed, options?: ConnectOptions): Client {
  return new Client(address, options);
}

export type { CallOptions, Client, ClientEvents, Counts } from "./client.js";
export type { State } from "./connector.js";
export type { Properties, ValueOptions } from "./content.js";
export { TideraceError } from "./error.js";
export type { Addressed, ConnectOptions } from "./options.js";
export type {
  BrowseOptions,
  Consumer,
  DurableOptions,
  DurableSubscription,
  Queue,
  QueueHandler,
  QueueMessage,
  ReceiveOptions,
  SendOptions,
} from "./queues.js";
export type { Conversation, Responder, ServeOptions, ServiceHandler } from "./services.js";
export type {
  Gap,
  PublishOptions,
  Replay,
  SubscribeOptions,
  Subscription,
  SubscriptionEvents,
  Topic,
  Update,
  UpdateHandler,
} from "./topics.js";
export type { TransportName, WebSocketClass, WebSocketLike } from "./transport/transport.js";
