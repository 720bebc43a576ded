// Made by `cargo xtask docs` from core/manage; do not edit.
import type { AnswerOf, List, SomeOf, Verb } from "./management.js";

export interface SessionsFields {
  /** Sessions of that protocol. At most 1024 bytes of UTF-8. */
  protocol?: string;
  /** Sessions that are logged in as that; of a virtual host: `@HOST/NAME`. At most 1024 bytes of UTF-8. */
  principal?: string;
  /** Sessions whose clients have that address, or one in that network. */
  address?: string;
  /** Sessions for which at least so many bytes wait. */
  backlog?: number;
  /** First those for which most waits, that have most subscriptions, or that came last; or by their ids. */
  sort?: "backlog" | "subscriptions" | "since" | "id";
  /** What `next` was in the page before. */
  after?: string;
  /** In one page: how many, at most. At most 500. */
  limit?: number;
}

export interface ShowSessionFields {
  /** The id of a session, as lists show it. */
  id: string;
}

export type KickFields = SomeOf<{
  /** The id of a session, as lists show it. */
  id?: string;
  /** Sessions of that protocol. At most 1024 bytes of UTF-8. */
  protocol?: string;
  /** Sessions that are logged in as that; of a virtual host: `@HOST/NAME`. At most 1024 bytes of UTF-8. */
  principal?: string;
  /** Sessions whose clients have that address, or one in that network. */
  address?: string;
  /** Sessions for which at least so many bytes wait. */
  backlog?: number;
  /** What the clients are told besides, on one line. At most 80 bytes of UTF-8. */
  reason?: string;
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}, "id" | "protocol" | "principal" | "address" | "backlog">;

export interface KickSessionFields {
  /** The id of a session, as lists show it. */
  id: string;
  /** What the clients are told besides, on one line. At most 80 bytes of UTF-8. */
  reason?: string;
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface BlocksFields {
  /** What `next` was in the page before. */
  after?: string;
  /** In one page: how many, at most. At most 500. */
  limit?: number;
}

export interface BlockFields {
  /** Whom; of a virtual host: `@HOST/NAME`. At most 1024 bytes of UTF-8. */
  principal: string;
  /** For how long; an hour if it is not given. A span such as `10m`, or milliseconds: at most 2592000000. */
  for?: string | number;
  /** What the clients are told besides, on one line. At most 80 bytes of UTF-8. */
  reason?: string;
  /** Whether that may take in who asks, or the server's own machine. */
  force?: boolean;
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface BlockAddressFields {
  /** The address, or the network. */
  address: string;
  /** For how long; an hour if it is not given. A span such as `10m`, or milliseconds: at most 2592000000. */
  for?: string | number;
  /** What the clients are told besides, on one line. At most 80 bytes of UTF-8. */
  reason?: string;
  /** Whether that may take in who asks, or the server's own machine. */
  force?: boolean;
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface UnblockFields {
  /** Whom; of a virtual host: `@HOST/NAME`. At most 1024 bytes of UTF-8. */
  principal: string;
}

export interface UnblockAddressFields {
  /** The address, or the network. */
  address: string;
}

export type TraceFields = SomeOf<{
  /** What that session does, by its id as lists show it. */
  session?: string;
  /** Sessions that are logged in as that; of a virtual host: `@HOST/NAME`. At most 1024 bytes of UTF-8. */
  principal?: string;
  /** Sessions whose clients have that address, or one in that network. */
  address?: string;
  /** Only what is about destinations that it names; a path or a pattern. */
  path?: string;
  /** How long it lasts; a minute without it. A span such as `10m`, or milliseconds: at most 600000. */
  for?: string | number;
  /** Which share of the events of messages is told; all without it. At most 1. */
  sample?: number;
  /** Bytes that are shown of each body that you may read. At most 512. */
  bodies?: number;
}, "session" | "principal" | "address" | "path">;

export interface TraceEndFields {
  /** The number that `trace` has answered. */
  id: number;
}

export interface TopicsFields {
  /** Topics that match it; all if it is not given. */
  selector?: string;
  /** What `next` was in the page before. */
  after?: string;
  /** In one page: how many, at most; 1,000 are the most. */
  limit?: number;
  /** Paths with more levels are cut off there, and listed once. */
  depth?: number;
  /** Whether specifications are wanted. */
  specs?: boolean;
}

export interface TopicFields {
  /** The topic. */
  path: string;
}

export interface QueuesFields {
  /** Queues that match it. */
  pattern?: string;
  /** What `next` was in the page before. */
  after?: string;
  /** In one page: how many, at most. At most 1000. */
  limit?: number;
}

export interface QueueFields {
  /** The queue. */
  path: string;
  /** What `next` was in the page before. */
  after?: number;
  /** In one page: how many, at most. At most 1000. */
  limit?: number;
}

export interface PeekFields {
  /** The queue. */
  path: string;
  /** The position to begin at. */
  from?: number;
  /** In one page: how many, at most. At most 1000. */
  limit?: number;
  /** Bytes of each body; what is longer is cut. At most 65536. */
  body_bytes?: number;
  /** Only messages with such properties. */
  selector?: string;
}

export interface PurgeFields {
  /** The queue. */
  path: string;
  /** Only messages with such properties. */
  selector?: string;
  /** Only messages up to this position. */
  up_to?: number;
}

export interface MoveFields {
  /** The queue that they are in. */
  from: string;
  /** The queue where they are to go. */
  to: string;
  /** Only messages with such properties. */
  selector?: string;
  /** How many, at most. */
  limit?: number;
  /** Only messages up to this position. */
  up_to?: number;
}

export interface RedriveFields {
  /** The queue. */
  path: string;
  /** The queue where they are to go. */
  to?: string;
  /** Only messages with such properties. */
  selector?: string;
  /** How many, at most. */
  limit?: number;
  /** Only messages up to this position. */
  up_to?: number;
}

export interface PauseFields {
  /** The queue. */
  path: string;
}

export interface ResumeFields {
  /** The queue. */
  path: string;
}

export interface SubscriptionsFields {
  /** What `next` was in the page before. */
  after?: string;
  /** In one page: how many, at most. At most 1000. */
  limit?: number;
}

export interface CreateSubscriptionFields {
  /** Its name. */
  name: string;
  /** What it gathers: topics and patterns of topics. At most 64. */
  topics: string[];
  /** Only messages with such properties. */
  selector?: string;
}

export interface DeleteSubscriptionFields {
  /** Its name. */
  name: string;
}

export interface ServicesFields {
  /** What `next` was in the page before. */
  after?: string;
  /** In one page: how many, at most. At most 1000. */
  limit?: number;
}

export interface ViewFields {
  /** Its name. */
  name: string;
  /** What it says. */
  text: string;
}

export interface UnviewFields {
  /** Its name. */
  name: string;
}

export interface UsersFields {
  /** What `next` was in the page before. */
  after?: number;
  /** In one page: how many, at most. At most 500. */
  limit?: number;
}

export interface PutUserFields {
  /** Its name. At most 128 bytes of UTF-8. */
  name: string;
  /** Its password; without it and `password_hash`: the one that it has. At most 1024 bytes of UTF-8. */
  password?: string;
  /** An argon2id hash of its password, as `tiderace password` prints it. */
  password_hash?: string;
  /** Groups, for rules. At most 64. */
  groups?: string[];
  /** The virtual host that it is bound to, or `*` for the whole tree. At most 1024 bytes of UTF-8. */
  host?: string;
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface RemoveUserFields {
  /** Its name. At most 128 bytes of UTF-8. */
  name: string;
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface TokensFields {
  /** What `next` was in the page before. */
  after?: number;
  /** In one page: how many, at most. At most 500. */
  limit?: number;
}

export interface PutTokenFields {
  /** Its name. At most 128 bytes of UTF-8. */
  name: string;
  /** `sha256:` and the hash of the token in hexadecimal, as `tiderace password --token` prints it; without it: the one that there is. */
  secret?: string;
  /** Who its bearer is; without it: who is called like the token. At most 1024 bytes of UTF-8. */
  principal?: string;
  /** Groups, for rules. At most 64. */
  groups?: string[];
  /** The virtual host that it is bound to, or `*` for the whole tree. At most 1024 bytes of UTF-8. */
  host?: string;
  /** For how long it is good; without it: until it is removed. A span such as `10m`, or milliseconds: at most 315360000000. */
  for?: string | number;
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface RemoveTokenFields {
  /** Its name. At most 128 bytes of UTF-8. */
  name: string;
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface RulesFields {
  /** What `next` was in the page before. */
  after?: number;
  /** In one page: how many, at most. At most 500. */
  limit?: number;
}

export interface PutRuleFields {
  /** Its name. At most 128 bytes of UTF-8. */
  name: string;
  /** The actions that it allows; one of `allow`, `deny` and `role` is given. At most 64. */
  allow?: string[];
  /** The actions that it denies. At most 64. */
  deny?: string[];
  /** The role that it gives; such a rule has neither `paths` nor `kind`. */
  role?: "viewer" | "operator" | "admin";
  /** Whom it concerns: `user:NAME`, `group:NAME`, `anonymous`, or `*`. At most 64. */
  principals: string[];
  /** Where, as patterns; everywhere if neither it nor `role` is given. At most 64. */
  paths?: string[];
  /** For which kind of destinations. */
  kind?: "any" | "queue" | "service" | "topic";
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface RemoveRuleFields {
  /** Its name. At most 128 bytes of UTF-8. */
  name: string;
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface ExplainFields {
  /** Who: a name, or `anonymous`; `@HOST/` before it for who connects by a virtual host. */
  who: string;
  /** Groups besides those that users and tokens of that name have in the configuration. At most 64. */
  groups?: string[];
  /** Claims of the login, each as `NAME=VALUE`. At most 64. */
  claims?: string[];
  /** What: an action of the rules. */
  action: "admin" | "browse" | "call" | "create" | "manage" | "monitor" | "operate" | "publish" | "receive" | "relay" | "send" | "serve" | "subscribe";
  /** On what; without it, what the action is for. */
  kind?: "topic" | "queue" | "service";
  /** Where, as that client writes it. */
  path: string;
}

export interface ConfigFields {
  /** Only that option, or those of that section. At most 1024 bytes of UTF-8. */
  under?: string;
  /** Whether only those are wanted that are set somewhere, or wait. */
  changed?: boolean;
  /** What `next` was in the page before. At most 1024 bytes of UTF-8. */
  after?: string;
  /** In one page: how many, at most. At most 500. */
  limit?: number;
}

export interface AuditFields {
  /** Behind which number; without it, the last that there are. */
  after?: number;
  /** In one page: how many, at most. At most 500. */
  limit?: number;
  /** What that principal has asked for. At most 1024 bytes of UTF-8. */
  who?: string;
  /** What is called so in the record. At most 1024 bytes of UTF-8. */
  verb?: string;
}

export interface DrainFields {
  /** Over how long the goodbyes are spread. A span such as `10m`, or milliseconds: at most 86400000. */
  over: string | number;
  /** How long `/readyz` says so before listeners close. A span such as `10m`, or milliseconds: at most 3600000. */
  delay?: string | number;
  /** Where clients are told to go, the best first. */
  to?: string[];
  /** Whether the server stops when all have left. */
  exit?: boolean;
}

export interface LogFields {
  /** The least important lines that are written. */
  level?: "error" | "warn" | "info" | "debug" | "trace";
  /** After how long the level is as it was configured; goes with `level`. A span such as `10m`, or milliseconds: at most 86400000. */
  for?: string | number;
}

export interface ReloadFields {
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface BackupFields {
  /** Whether it is only said what would change. */
  dry_run?: boolean;
}

export interface BackupReadFields {
  /** The number that `backup` has answered. */
  backup: number;
  /** How many bytes were read. */
  from: number;
}

/** A function for each verb that a server knows. */
export interface Management {
  /**
   * Lists sessions: who they are, where their clients are, and how they fare.
   *
   * Verb `sessions`, operation `sessions`; from the role viewer on.
   */
  sessions<T = AnswerOf<"sessions">>(fields?: SessionsFields): List<T>;

  /**
   * Shows one session.
   *
   * Verb `show-session`, operation `sessions`; from the role viewer on.
   */
  showSession<T = AnswerOf<"showSession">>(fields: ShowSessionFields): Promise<T>;

  /**
   * Ends the sessions for which all that is given holds; some of it has to be given.
   *
   * Verb `kick`, operation `kick`; from the role operator on. It cannot be taken back: a person is to agree.
   */
  kick<T = AnswerOf<"kick">>(fields: KickFields): Promise<T>;

  /**
   * Ends one session.
   *
   * Verb `kick-session`, operation `kick`; from the role operator on.
   */
  kickSession<T = AnswerOf<"kickSession">>(fields: KickSessionFields): Promise<T>;

  /**
   * Lists who is kept out, and until when.
   *
   * Verb `blocks`, operation `blocks`; from the role operator on.
   */
  blocks<T = AnswerOf<"blocks">>(fields?: BlocksFields): List<T>;

  /**
   * Ends the sessions of a principal, and keeps it out for a while.
   *
   * Verb `block`, operation `block`; from the role operator on. It cannot be taken back: a person is to agree.
   */
  block<T = AnswerOf<"block">>(fields: BlockFields): Promise<T>;

  /**
   * Ends the sessions of clients with an address, or with one in a network, and keeps them out for a while.
   *
   * Verb `block-address`, operation `block`; from the role operator on. It cannot be taken back: a person is to agree.
   */
  blockAddress<T = AnswerOf<"blockAddress">>(fields: BlockAddressFields): Promise<T>;

  /**
   * Lets a principal in again.
   *
   * Verb `unblock`, operation `unblock`; from the role operator on.
   */
  unblock<T = AnswerOf<"unblock">>(fields: UnblockFields): Promise<T>;

  /**
   * Lets an address or a network in again.
   *
   * Verb `unblock-address`, operation `unblock`; from the role operator on.
   */
  unblockAddress<T = AnswerOf<"unblockAddress">>(fields: UnblockAddressFields): Promise<T>;

  /**
   * Begins to tell what sessions do as a series of events.
   *
   * Verb `trace`, operation `trace`; from the role operator on.
   */
  trace<T = AnswerOf<"trace">>(fields: TraceFields): Promise<T>;

  /**
   * Lists the traces that go on.
   *
   * Verb `traces`, operation `traces`; from the role operator on.
   */
  traces<T = AnswerOf<"traces">>(): Promise<T>;

  /**
   * Ends a trace.
   *
   * Verb `trace-end`, operation `trace-end`; from the role operator on.
   */
  traceEnd<T = AnswerOf<"traceEnd">>(fields: TraceEndFields): Promise<T>;

  /**
   * Lists topics without their values, in the order of their paths.
   *
   * Verb `topics`, operation `fetch`; from the role viewer on. Who may not is shown nothing.
   */
  topics<T = AnswerOf<"topics">>(fields?: TopicsFields): List<T>;

  /**
   * Shows a topic without its value, and how many subscriptions it has.
   *
   * Verb `topic`, operation `topic`; from the role viewer on.
   */
  topic<T = AnswerOf<"topic">>(fields: TopicFields): Promise<T>;

  /**
   * Lists queues, and how they fare.
   *
   * Verb `queues`, operation `queues`; from the role viewer on.
   */
  queues<T = AnswerOf<"queues">>(fields?: QueuesFields): List<T>;

  /**
   * Shows a queue with its options and consumers.
   *
   * Verb `queue`, operation `queue`; from the role viewer on.
   */
  queue<T = AnswerOf<"queue">>(fields: QueueFields): List<T>;

  /**
   * Shows messages that are ready in a queue, and stay there.
   *
   * Verb `peek`, operation `peek`; from the role operator on.
   */
  peek<T = AnswerOf<"peek">>(fields: PeekFields): List<T>;

  /**
   * Removes the messages that are ready in a queue.
   *
   * Verb `purge`, operation `purge`; from the role operator on. It cannot be taken back: a person is to agree.
   */
  purge<T = AnswerOf<"purge">>(fields: PurgeFields): Promise<T>;

  /**
   * Moves the messages that are ready in a queue to another one.
   *
   * Verb `move`, operation `move`; from the role operator on.
   */
  move<T = AnswerOf<"move">>(fields: MoveFields): Promise<T>;

  /**
   * Sends dead letters back to where they came from, as new.
   *
   * Verb `redrive`, operation `redrive`; from the role operator on.
   */
  redrive<T = AnswerOf<"redrive">>(fields: RedriveFields): Promise<T>;

  /**
   * Lets the consumers of a queue wait until it is resumed.
   *
   * Verb `pause`, operation `pause`; from the role operator on.
   */
  pause<T = AnswerOf<"pause">>(fields: PauseFields): Promise<T>;

  /**
   * Gives consumers the messages of a queue again.
   *
   * Verb `resume`, operation `resume`; from the role operator on.
   */
  resume<T = AnswerOf<"resume">>(fields: ResumeFields): Promise<T>;

  /**
   * Lists the queues of durable subscriptions.
   *
   * Verb `subscriptions`, operation `queues`; from the role viewer on.
   */
  subscriptions<T = AnswerOf<"subscriptions">>(fields?: SubscriptionsFields): List<T>;

  /**
   * Makes a durable subscription, or changes what the one of that name gathers.
   *
   * Verb `create-subscription`, operation `create-subscription`; from the role admin on.
   */
  createSubscription<T = AnswerOf<"createSubscription">>(fields: CreateSubscriptionFields): Promise<T>;

  /**
   * Ends a durable subscription with all that it has gathered.
   *
   * Verb `delete-subscription`, operation `delete-subscription`; from the role admin on. It cannot be taken back: a person is to agree.
   */
  deleteSubscription<T = AnswerOf<"deleteSubscription">>(fields: DeleteSubscriptionFields): Promise<T>;

  /**
   * Lists what serves, with the exchanges that are open.
   *
   * Verb `services`, operation `browse`; from the role viewer on.
   */
  services<T = AnswerOf<"services">>(fields?: ServicesFields): List<T>;

  /**
   * Lists the views with what they say.
   *
   * Verb `views`, operation `views`; from the role viewer on. Who may not is shown nothing.
   */
  views<T = AnswerOf<"views">>(): Promise<T>;

  /**
   * Puts a view in place of the one of that name.
   *
   * Verb `view`, operation `view`; from the role admin on.
   */
  view<T = AnswerOf<"view">>(fields: ViewFields): Promise<T>;

  /**
   * Takes a view away.
   *
   * Verb `unview`, operation `unview`; from the role admin on.
   */
  unview<T = AnswerOf<"unview">>(fields: UnviewFields): Promise<T>;

  /**
   * Lists users, without their passwords.
   *
   * Verb `users`, operation `users`; from the role admin on.
   */
  users<T = AnswerOf<"users">>(fields?: UsersFields): List<T>;

  /**
   * Adds a user, or puts it in place of the one of that name.
   *
   * Verb `put-user`, operation `put-user`; from the role admin on.
   */
  putUser<T = AnswerOf<"putUser">>(fields: PutUserFields): Promise<T>;

  /**
   * Removes a user that was put, and ends its sessions.
   *
   * Verb `remove-user`, operation `remove-user`; from the role admin on. It cannot be taken back: a person is to agree.
   */
  removeUser<T = AnswerOf<"removeUser">>(fields: RemoveUserFields): Promise<T>;

  /**
   * Lists tokens, without what is shown for them.
   *
   * Verb `tokens`, operation `tokens`; from the role admin on.
   */
  tokens<T = AnswerOf<"tokens">>(fields?: TokensFields): List<T>;

  /**
   * Adds a token, or puts it in place of the one of that name.
   *
   * Verb `put-token`, operation `put-token`; from the role admin on.
   */
  putToken<T = AnswerOf<"putToken">>(fields: PutTokenFields): Promise<T>;

  /**
   * Removes a token that was put, and ends the sessions that began with it.
   *
   * Verb `remove-token`, operation `remove-token`; from the role admin on. It cannot be taken back: a person is to agree.
   */
  removeToken<T = AnswerOf<"removeToken">>(fields: RemoveTokenFields): Promise<T>;

  /**
   * Lists the rules in the order of their numbers.
   *
   * Verb `rules`, operation `rules`; from the role admin on.
   */
  rules<T = AnswerOf<"rules">>(fields?: RulesFields): List<T>;

  /**
   * Adds a rule, or puts it in place of the one of that name.
   *
   * Verb `put-rule`, operation `put-rule`; from the role admin on.
   */
  putRule<T = AnswerOf<"putRule">>(fields: PutRuleFields): Promise<T>;

  /**
   * Removes a rule that was put.
   *
   * Verb `remove-rule`, operation `remove-rule`; from the role admin on. It cannot be taken back: a person is to agree.
   */
  removeRule<T = AnswerOf<"removeRule">>(fields: RemoveRuleFields): Promise<T>;

  /**
   * Shows what is wrong, and what to do.
   *
   * Verb `alarms`, operation `fetch`; from the role viewer on. Who may not is shown nothing.
   */
  alarms<T = AnswerOf<"alarms">>(): Promise<T>;

  /**
   * Says whether somebody may do something, and which rule decides.
   *
   * Verb `explain`, operation `explain`; from the role admin on.
   */
  explain<T = AnswerOf<"explain">>(fields: ExplainFields): Promise<T>;

  /**
   * Shows which configuration the server holds to, and what of it waits.
   *
   * Verb `config`, operation `config`; from the role admin on.
   */
  config<T = AnswerOf<"config">>(fields?: ConfigFields): List<T>;

  /**
   * Shows who has changed what, and who was not to.
   *
   * Verb `audit`, operation `audit`; from the role operator on.
   */
  audit<T = AnswerOf<"audit">>(fields?: AuditFields): List<T>;

  /**
   * Tells what the node counts, as its metrics do.
   *
   * Verb `stats`, operation `stats`; from the role viewer on.
   */
  stats<T = AnswerOf<"stats">>(): Promise<T>;

  /**
   * Sends the clients of the node to other nodes.
   *
   * Verb `drain`, operation `drain`; from the role operator on. It cannot be taken back: a person is to agree.
   */
  drain<T = AnswerOf<"drain">>(fields: DrainFields): Promise<T>;

  /**
   * Says how far a drain has come.
   *
   * Verb `drain-state`, operation `drain-state`; from the role viewer on.
   */
  drainState<T = AnswerOf<"drainState">>(): Promise<T>;

  /**
   * Takes a drain back: listeners open again, and who has not left stays.
   *
   * Verb `drain-cancel`, operation `drain-cancel`; from the role operator on.
   */
  drainCancel<T = AnswerOf<"drainCancel">>(): Promise<T>;

  /**
   * Says which lines the log gets; without `level`, as the configuration has it.
   *
   * Verb `log`, operation `log`; from the role operator on.
   */
  log<T = AnswerOf<"log">>(fields?: LogFields): Promise<T>;

  /**
   * Has the configuration read again, and says what that changes.
   *
   * Verb `reload`, operation `reload`; from the role admin on.
   */
  reload<T = AnswerOf<"reload">>(fields?: ReloadFields): Promise<T>;

  /**
   * Begins a copy of what is stored.
   *
   * Verb `backup`, operation `backup`; from the role admin on.
   */
  backup<T = AnswerOf<"backup">>(fields?: BackupFields): Promise<T>;

  /**
   * Reads the next bytes of a backup.
   *
   * Verb `backup-read`, operation `backup-read`; from the role admin on.
   */
  backupRead<T = AnswerOf<"backupRead">>(fields: BackupReadFields): Promise<T>;
}

/** The verbs by the names of their functions. */
export const verbs = {
  sessions: { name: "sessions", do: "sessions", role: "viewer", pages: "after" },
  showSession: { name: "show-session", do: "sessions", role: "viewer" },
  kick: { name: "kick", do: "kick", role: "operator", changes: true, confirm: true },
  kickSession: { name: "kick-session", do: "kick", role: "operator", changes: true },
  blocks: { name: "blocks", do: "blocks", role: "operator", pages: "after" },
  block: { name: "block", do: "block", role: "operator", changes: true, confirm: true },
  blockAddress: { name: "block-address", do: "block", role: "operator", changes: true, confirm: true },
  unblock: { name: "unblock", do: "unblock", role: "operator", changes: true },
  unblockAddress: { name: "unblock-address", do: "unblock", role: "operator", changes: true },
  trace: { name: "trace", do: "trace", role: "operator", changes: true },
  traces: { name: "traces", do: "traces", role: "operator" },
  traceEnd: { name: "trace-end", do: "trace-end", role: "operator", changes: true },
  topics: { name: "topics", do: "fetch", role: "viewer", pages: "after", hides: true },
  topic: { name: "topic", do: "topic", role: "viewer" },
  queues: { name: "queues", do: "queues", role: "viewer", pages: "after" },
  queue: { name: "queue", do: "queue", role: "viewer", pages: "after" },
  peek: { name: "peek", do: "peek", role: "operator", pages: "from" },
  purge: { name: "purge", do: "purge", role: "operator", changes: true, confirm: true },
  move: { name: "move", do: "move", role: "operator", changes: true },
  redrive: { name: "redrive", do: "redrive", role: "operator", changes: true },
  pause: { name: "pause", do: "pause", role: "operator", changes: true },
  resume: { name: "resume", do: "resume", role: "operator", changes: true },
  subscriptions: { name: "subscriptions", do: "queues", role: "viewer", with: { pattern: "dsub/**" }, pages: "after" },
  createSubscription: { name: "create-subscription", do: "create-subscription", role: "admin", changes: true },
  deleteSubscription: { name: "delete-subscription", do: "delete-subscription", role: "admin", changes: true, confirm: true },
  services: { name: "services", do: "browse", role: "viewer", with: { what: "services" }, pages: "after" },
  views: { name: "views", do: "views", role: "viewer", hides: true },
  view: { name: "view", do: "view", role: "admin", changes: true },
  unview: { name: "unview", do: "unview", role: "admin", changes: true },
  users: { name: "users", do: "users", role: "admin", pages: "after" },
  putUser: { name: "put-user", do: "put-user", role: "admin", changes: true },
  removeUser: { name: "remove-user", do: "remove-user", role: "admin", changes: true, confirm: true },
  tokens: { name: "tokens", do: "tokens", role: "admin", pages: "after" },
  putToken: { name: "put-token", do: "put-token", role: "admin", changes: true },
  removeToken: { name: "remove-token", do: "remove-token", role: "admin", changes: true, confirm: true },
  rules: { name: "rules", do: "rules", role: "admin", pages: "after" },
  putRule: { name: "put-rule", do: "put-rule", role: "admin", changes: true },
  removeRule: { name: "remove-rule", do: "remove-rule", role: "admin", changes: true, confirm: true },
  alarms: { name: "alarms", do: "fetch", role: "viewer", with: { selector: "$sys/alarms/*", values: true, limit: 1000 }, hides: true },
  explain: { name: "explain", do: "explain", role: "admin" },
  config: { name: "config", do: "config", role: "admin", pages: "after" },
  audit: { name: "audit", do: "audit", role: "operator", pages: "after" },
  stats: { name: "stats", do: "stats", role: "viewer" },
  drain: { name: "drain", do: "drain", role: "operator", changes: true, confirm: true },
  drainState: { name: "drain-state", do: "drain-state", role: "viewer" },
  drainCancel: { name: "drain-cancel", do: "drain-cancel", role: "operator", changes: true },
  log: { name: "log", do: "log", role: "operator", changes: true },
  reload: { name: "reload", do: "reload", role: "admin", changes: true },
  backup: { name: "backup", do: "backup", role: "admin", changes: true },
  backupRead: { name: "backup-read", do: "backup-read", role: "admin", changes: true },
} as const satisfies Record<keyof Management, Verb>;
