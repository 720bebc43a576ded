/** Types and flags of messages (docs/protocol.md, sections 4 and 5). */

export const HELLO = 0x01;
export const LOGIN = 0x02;
export const SUBSCRIBE = 0x03;
export const UNSUBSCRIBE = 0x04;
export const DECLARE = 0x05;
export const PUBLISH = 0x06;
export const SETTLE = 0x07;
export const CALL = 0x08;
export const SEND = 0x09;
export const CANCEL = 0x0a;
export const CREDIT = 0x0b;
export const PING = 0x0c;
export const BYE = 0x0d;
export const OPERATE = 0x0e;

export const WELCOME = 0x41;
export const OK = 0x42;
export const ERROR = 0x43;
export const TOPIC = 0x44;
export const UPDATES = 0x45;
export const QUEUED = 0x46;
export const EXCHANGE = 0x47;
export const POSITION = 0x48;
export const RECOVERED = 0x49;
export const ENDED = 0x4a;
export const PONG = 0x4b;
export const CLOSE = 0x4c;
export const LOGGED_IN = 0x4d;
export const RESULT = 0x4e;
export const JOINED = 0x4f;
export const LEFT = 0x50;
export const FOLLOWS = 0x51;
export const BROWSED = 0x52;
export const UNSUBSCRIBED = 0x55;

export const TOPIC_KIND = 0;
export const QUEUE_KIND = 1;
export const SERVICE_KIND = 2;
export type Kind = 0 | 1 | 2;

/** Flags of SUBSCRIBE. */
export const SNAPSHOT = 0x001;
export const RECOVERABLE = 0x002;
export const DELTAS = 0x004;
export const SELECTOR = 0x008;
export const WINDOW = 0x010;
export const RESUME = 0x020;
export const EXPLICIT = 0x040;
export const EXCLUSIVE = 0x080;
export const PATTERN = 0x100;
export const REPLAY = 0x200;
export const INTERVAL = 0x400;
export const NOTICES = 0x800;
export const VALUES = 0x1000;
export const OK_LAST = 0x2000;
export const BROWSE = 0x4000;
export const FOLLOW = 0x8000;
export const START = 0x10000;
/** Whether a path names many: by wildcards, regular expressions (`?a/.*`) or as a set (`[a, b]`). */
export const patternFlag = (path: string) => (/^[?[]|[*+#]/.test(path) ? PATTERN : 0);

/** Flags of messages with a body: the two lowest bits are the content. */
export const CONTENT = 0x03;
export const PROPERTIES = 0x04;

/** Flags of PUBLISH. */
export const RETAIN = 0x08;
export const REMOVE = 0x10;
export const EXPIRES = 0x20;
export const PERSISTENT = 0x40;
export const QUEUE_FIELDS = 0x80;

/** Flags of entries of UPDATES, and of QUEUED. */
export const ANNOUNCED = 0x08;
export const FULL_VERSION = 0x10;
export const DELTA = 0x20;
export const REMOVED = 0x40;
export const VALUE = 0x80;
export const UPDATE_FLAGS = 0xff;

/** What WELCOME tells that a server can do: the flags VALUES and OK_LAST. */
export const CAN_TELL_VALUES = 0x1;

/** Flags of CALL, SEND and EXCHANGE. */
export const LAST = 0x08;
export const RESPONDER = 0x10;
export const FIRST = 0x20;
export const EXCHANGE_ANNOUNCED = 0x40;
/** No message: this side has only nothing more to say. */
export const BARE = 0x80;

/** The code of deltas that this client understands. */
export const DELTA_CODEC = 1;
