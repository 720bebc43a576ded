/** Types and flags of messages (docs/protocol.md, sections 4 and 5). */
export declare const HELLO = 1;
export declare const LOGIN = 2;
export declare const SUBSCRIBE = 3;
export declare const UNSUBSCRIBE = 4;
export declare const DECLARE = 5;
export declare const PUBLISH = 6;
export declare const SETTLE = 7;
export declare const CALL = 8;
export declare const SEND = 9;
export declare const CANCEL = 10;
export declare const CREDIT = 11;
export declare const PING = 12;
export declare const BYE = 13;
export declare const OPERATE = 14;
export declare const WELCOME = 65;
export declare const OK = 66;
export declare const ERROR = 67;
export declare const TOPIC = 68;
export declare const UPDATES = 69;
export declare const QUEUED = 70;
export declare const EXCHANGE = 71;
export declare const POSITION = 72;
export declare const RECOVERED = 73;
export declare const ENDED = 74;
export declare const PONG = 75;
export declare const CLOSE = 76;
export declare const LOGGED_IN = 77;
export declare const RESULT = 78;
export declare const JOINED = 79;
export declare const LEFT = 80;
export declare const FOLLOWS = 81;
export declare const BROWSED = 82;
export declare const UNSUBSCRIBED = 85;
export declare const TOPIC_KIND = 0;
export declare const QUEUE_KIND = 1;
export declare const SERVICE_KIND = 2;
export type Kind = 0 | 1 | 2;
/** Flags of SUBSCRIBE. */
export declare const SNAPSHOT = 1;
export declare const RECOVERABLE = 2;
export declare const DELTAS = 4;
export declare const SELECTOR = 8;
export declare const WINDOW = 16;
export declare const RESUME = 32;
export declare const EXPLICIT = 64;
export declare const EXCLUSIVE = 128;
export declare const PATTERN = 256;
export declare const REPLAY = 512;
export declare const INTERVAL = 1024;
export declare const NOTICES = 2048;
export declare const VALUES = 4096;
export declare const OK_LAST = 8192;
export declare const BROWSE = 16384;
export declare const FOLLOW = 32768;
export declare const START = 65536;
/** Whether a path names many: by wildcards, regular expressions (`?a/.*`) or as a set (`[a, b]`). */
export declare const patternFlag: (path: string) => 0 | 256;
/** Flags of messages with a body: the two lowest bits are the content. */
export declare const CONTENT = 3;
export declare const PROPERTIES = 4;
/** Flags of PUBLISH. */
export declare const RETAIN = 8;
export declare const REMOVE = 16;
export declare const EXPIRES = 32;
export declare const PERSISTENT = 64;
export declare const QUEUE_FIELDS = 128;
/** Flags of entries of UPDATES, and of QUEUED. */
export declare const ANNOUNCED = 8;
export declare const FULL_VERSION = 16;
export declare const DELTA = 32;
export declare const REMOVED = 64;
export declare const VALUE = 128;
export declare const UPDATE_FLAGS = 255;
/** What WELCOME tells that a server can do: the flags VALUES and OK_LAST. */
export declare const CAN_TELL_VALUES = 1;
/** Flags of CALL, SEND and EXCHANGE. */
export declare const LAST = 8;
export declare const RESPONDER = 16;
export declare const FIRST = 32;
export declare const EXCHANGE_ANNOUNCED = 64;
/** No message: this side has only nothing more to say. */
export declare const BARE = 128;
/** The code of deltas that this client understands. */
export declare const DELTA_CODEC = 1;
