//! Every alarm: its name, how bad it is, what it means, what to do, and when it is there; one table from which the topics
//! below `$sys/alarms`, the log, a metric, the rules for Prometheus and the documentation are made.
//!
//! Pure, and relies on nothing, so that `cargo xtask docs` reads this file, too. Invariant: a condition looks at what was
//! seen and nothing else, and says with figures what it has found.

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Somebody should know; nothing is wrong.
    Info,
    /// Nothing is lost yet; somebody should look at it within the day.
    Warning,
    /// Clients are refused, or something may be lost: somebody should look at it now.
    Critical,
}

impl Severity {
    /// As it is written everywhere.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// One kind of alarm.
pub(crate) struct AlarmRow {
    /// Its name: the last level of its topic, and a label of its metric.
    pub(crate) name: &'static str,
    pub(crate) severity: Severity,
    /// What it means, in a sentence.
    pub(crate) cause: &'static str,
    /// When it is there, for people.
    #[allow(dead_code, reason = "documentation is made of it, by tools/xtask")]
    pub(crate) condition: &'static str,
    /// What to do.
    pub(crate) remedy: &'static str,
    /// Seconds for which the condition has to hold before the alarm begins.
    pub(crate) after: u64,
    /// Seconds for which the condition has to be gone before the alarm ends.
    pub(crate) lingers: u64,
    /// From which level on it is there, and from which no more, if it is about a level.
    pub(crate) level: Option<Level>,
    /// When it is there: what was found, with its figures. Given the level, in percent, that counts now.
    pub(crate) look: fn(&Seen, u64) -> Option<String>,
}

/// A level at which an alarm begins, in percent of what there may be, and another at which it ends: one that swings around
/// a bound is told once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub(crate) begins: u64,
    /// Less than that if there can be too much of something, more if there can be too little.
    pub(crate) ends: u64,
}

impl Level {
    /// When it ends, for people.
    #[allow(dead_code, reason = "documentation is made of it, by tools/xtask")]
    pub(crate) fn end(self) -> String {
        let way = if self.ends < self.begins { "below" } else { "from" };
        format!("Ends {way} {} %.", self.ends)
    }
}

impl AlarmRow {
    /// What was found if it is to be there, with its figures.
    pub(crate) fn find(&self, seen: &Seen, is_there: bool) -> Option<String> {
        let percent = self.level.map_or(0, |it| if is_there { it.ends } else { it.begins });
        (self.look)(seen, percent)
    }
}

/// What the server looks like at one moment. Of counters: by how much they have grown since the last look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Open files of this process, if that can be told.
    pub(crate) files_open: Option<u64>,
    pub(crate) files_max: u64,
    pub(crate) connections: u64,
    pub(crate) connections_max: u64,
    /// Connections that were closed as they came, for lack of files.
    pub(crate) refused_for_files: u64,
    /// Connections that were closed as they came, since there were as many as there may be.
    pub(crate) refused_for_limit: u64,
    /// Bytes in use and their bound, of each shard.
    pub(crate) memory: Vec<(u64, u64)>,
    /// Disks that the server writes to.
    pub(crate) disks: Vec<Disk>,
    pub(crate) store_is_full: bool,
    pub(crate) store_has_failed: bool,
    pub(crate) store_queues_are_full: bool,
    /// Records and messages that could not be read back.
    pub(crate) unreadable: u64,
    /// The server's certificates.
    pub(crate) certificates: Vec<Holds>,
    pub(crate) certificates_were_refused: bool,
    pub(crate) configuration_was_refused: bool,
    /// Names of upstreams that are away, each with the reason if there is one.
    pub(crate) upstreams_away: Vec<(String, Option<String>)>,
    /// Logins about which the server that knows them was not to be asked, or has not answered.
    pub(crate) logins_unanswered: u64,
    /// Messages refused because a queue was full, or its owner has as much as it may.
    pub(crate) queue_messages_refused: u64,
    /// Owners of queues that have nearly all the bytes that they may.
    pub(crate) queue_owners_full: u64,
    pub(crate) publishers_paused: u64,
    pub(crate) dead_lettered: u64,
    /// Shards that have ended no turn for so many seconds.
    pub(crate) stalled: Vec<(usize, u64)>,
    /// Clients that are to go elsewhere, while the server sends them there.
    pub(crate) draining: Option<u64>,
    /// Listeners that a drain has closed are to open again, and are not all open.
    pub(crate) is_opening: bool,
    /// Seconds by which the time of day went ahead of the time that has passed; negative if it fell behind.
    pub(crate) clock_jump: f64,
    pub(crate) log_lines_dropped: u64,
    /// Sessions that have failed by a defect.
    pub(crate) session_panics: u64,
}

/// For how long a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holds {
    /// Seconds from its beginning to its end.
    pub(crate) lifetime: i64,
    /// Seconds until its end; negative behind that.
    pub(crate) left: i64,
}

impl Holds {
    /// Whether it should have been renewed: renewals that work come 14 days before the end, and earlier than in the last third of a
    /// short life.
    pub(crate) fn ends_soon(self) -> bool {
        self.left < CERTIFICATE_SOON.min(self.lifetime / 3)
    }
}

/// A disk with something of the server on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Disk {
    /// What is there: `store` or `large-messages`.
    pub(crate) purpose: &'static str,
    pub(crate) directory: String,
    /// Bytes that this process may still write.
    pub(crate) free: u64,
    /// Bytes of the whole disk.
    pub(crate) bytes: u64,
}

/// Open files, connections, memory: from this part of what there may be on, somebody should know.
const NEAR: Level = Level { begins: 90, ends: 85 };
/// What is to be kept is refused if it would be more than there may be, so that little of it is left then and not nothing.
const FULL: Level = Level { begins: 99, ends: 94 };
/// Free bytes of a disk, which is used by others as well.
const DISK_FREE: Level = Level { begins: 10, ends: 11 };
/// A disk with so many bytes free for each percent of that has room enough, whatever its size.
const DISK_FREE_ENOUGH: u64 = 5 << 30;
/// See [`Holds::ends_soon`].
const CERTIFICATE_SOON: i64 = 14 * 86_400;
/// Clocks that are set by so many seconds at once are not merely being adjusted.
const JUMP_SECONDS: f64 = 2.0;
/// Turns end some twenty times a second: a shard that ended none for so many seconds does not go on.
const STALLED_SECONDS: u64 = 2;

/// Alarms of what counters tell last for so many seconds after the last event, so that they can be seen.
const EVENT_LINGERS: u64 = 60;
/// Alarms of levels end when these were left for so many seconds, so that an alarm does not come and go.
const LEVEL_LINGERS: u64 = 5;

/// All alarms, by their names.
pub(crate) const ALARMS: &[AlarmRow] = &[
    AlarmRow {
        name: "certificate-ends-soon",
        severity: Severity::Warning,
        cause: "A certificate of the server ends soon; clients will refuse it then.",
        condition: "A certificate ends within 14 days, or, if it holds for less than 42 days, within a third of that time.",
        remedy: "Renew the certificate and put it in place of the old file; the server reads it by itself, or by `tiderace reload`.",
        after: 0,
        lingers: 0,
        level: None,
        look: |seen, _| {
            let soon = seen.certificates.iter().filter(|one| one.left >= 0 && one.ends_soon());
            let left = soon.map(|one| one.left).min()?;
            Some(format!("a certificate ends in {}", span(left.unsigned_abs())))
        },
    },
    AlarmRow {
        name: "certificate-expired",
        severity: Severity::Critical,
        cause: "A certificate of the server has ended; clients refuse it.",
        condition: "The end of one of the certificates is past.",
        remedy: "Renew the certificate and put it in place of the old file; if it is new, look at the clock of this machine.",
        after: 0,
        lingers: 0,
        level: None,
        look: |seen, _| {
            let left =
                seen.certificates.iter().map(|one| one.left).min().filter(|left| *left < 0)?;
            Some(format!("a certificate has ended {} ago", span(left.unsigned_abs())))
        },
    },
    AlarmRow {
        name: "certificates-refused",
        severity: Severity::Warning,
        cause: "Files of certificates have changed and cannot be used; the server goes on with those that it has read before.",
        condition: "The last reading of changed certificates has failed.",
        remedy: "Read the line `certificates-not-reloaded` of the log, which names the file; mend it, and run `tiderace reload`.",
        after: 0,
        lingers: 0,
        level: None,
        look: |seen, _| {
            let text = "changed certificates cannot be used; those from before are in use";
            seen.certificates_were_refused.then(|| text.to_owned())
        },
    },
    AlarmRow {
        name: "clock-jumped",
        severity: Severity::Warning,
        cause: "The time of day has jumped: expiry, delays and tokens go by it. The clock was set, or the machine was suspended.",
        condition: "Within a second the time of day has gone 2 seconds further than the time that has passed, or fell back as far; lasts 10 minutes.",
        remedy: "Look at the service that sets the clock (`chronyc tracking`, `timedatectl`); have it adjust the clock instead of setting it.",
        after: 0,
        lingers: 600,
        level: None,
        look: |seen, _| {
            let way = if seen.clock_jump > 0.0 { "ahead" } else { "back" };
            let by = seen.clock_jump.abs();
            (by >= JUMP_SECONDS).then(|| format!("the time of day jumped {way} by {by:.1} seconds"))
        },
    },
    AlarmRow {
        name: "configuration-refused",
        severity: Severity::Warning,
        cause: "The configuration was read again and cannot be used; the server goes on by the one from before.",
        condition: "The last reading of the configuration has failed.",
        remedy: "Run `tiderace config check`, mend what it names, and run `tiderace reload`.",
        after: 0,
        lingers: 0,
        level: None,
        look: |seen, _| {
            let text = "the configuration cannot be used; the one from before is in force";
            seen.configuration_was_refused.then(|| text.to_owned())
        },
    },
    AlarmRow {
        name: "connections-at-limit",
        severity: Severity::Critical,
        cause: "Connections are refused, since there are as many as there may be.",
        condition: "A connection was refused for `limits.connections_max` within the last minute.",
        remedy: "Raise `limits.connections_max` and the limit of open files, or send clients to another server with `tiderace drain`; `tiderace connections ls` says who has them.",
        after: 0,
        lingers: EVENT_LINGERS,
        level: None,
        look: |seen, _| {
            let (now, most) = (seen.connections, seen.connections_max);
            let text = || format!("connections are refused: {now} are open, and {most} may be");
            (seen.refused_for_limit > 0).then(text)
        },
    },
    AlarmRow {
        name: "connections-near-limit",
        severity: Severity::Warning,
        cause: "Nearly as many connections are open as there may be.",
        condition: "Open connections are 90 % of `limits.connections_max`, or of what the open files allow.",
        remedy: "Raise `limits.connections_max` and the limit of open files, or add a server.",
        after: 0,
        lingers: LEVEL_LINGERS,
        level: Some(NEAR),
        look: |seen, percent| {
            let (now, most) = (seen.connections, seen.connections_max);
            is_reached(now, most, percent)
                .then(|| format!("{now} connections are open, and {most} may be"))
        },
    },
    AlarmRow {
        name: "dead-letters",
        severity: Severity::Warning,
        cause: "Messages go to dead-letter queues, since their consumers have failed at them too often or they came too late.",
        condition: "A message was moved to a dead-letter queue within the last 5 minutes.",
        remedy: "Look at them with `tiderace queues ls`, mend the consumer, and move them back; docs/queues.md says how.",
        after: 0,
        lingers: 300,
        level: None,
        look: |seen, _| {
            let count = seen.dead_lettered;
            (count > 0).then(|| format!("{} came to a dead-letter queue", messages(count)))
        },
    },
    AlarmRow {
        name: "disk-nearly-full",
        severity: Severity::Warning,
        cause: "A disk that the server writes to is nearly full; persistent or large messages will be refused.",
        condition: "Less than 10 % and less than 50 GiB of the disk of `store.directory` or `large_messages.directory` are free; 55 GiB are enough then.",
        remedy: "Make room on the disk or enlarge it; bound queues, or `store.queue_bytes_max`.",
        after: 0,
        lingers: LEVEL_LINGERS,
        level: Some(DISK_FREE),
        look: |seen, percent| {
            let full = seen.disks.iter().find(|disk| {
                disk.free < disk.bytes / 100 * percent && disk.free < DISK_FREE_ENOUGH * percent
            })?;
            let (free, bytes) = (mebibytes(full.free), mebibytes(full.bytes));
            let directory = &full.directory;
            Some(format!("{free} of {bytes} MiB are free on the disk of {directory}"))
        },
    },
    AlarmRow {
        name: "draining",
        severity: Severity::Info,
        cause: "The server sends its clients to other servers, and is not ready for new ones.",
        condition: "From when a drain is asked for until it is taken back and all listeners are open again.",
        remedy: "None, if this was meant; else `tiderace drain --cancel`. If a listener does not open again, the log says why.",
        after: 0,
        lingers: 0,
        level: None,
        look: |seen, _| {
            if seen.is_opening {
                return Some("not all listeners are open again after a drain".to_owned());
            }
            let left = seen.draining?;
            Some(format!("the server sends its clients elsewhere; {left} have not left"))
        },
    },
    AlarmRow {
        name: "files-exhausted",
        severity: Severity::Critical,
        cause: "Connections are refused, since this process may open no more files.",
        condition: "A connection was refused for lack of files within the last minute.",
        remedy: "Raise the limit of open files (`LimitNOFILE=` of the unit); `tiderace doctor` names the command.",
        after: 0,
        lingers: EVENT_LINGERS,
        level: None,
        look: |seen, _| {
            let most = seen.files_max;
            let text =
                || format!("connections are refused: this process may have {most} files open");
            (seen.refused_for_files > 0).then(text)
        },
    },
    AlarmRow {
        name: "files-near-limit",
        severity: Severity::Warning,
        cause: "Nearly as many files are open as this process may have; each connection is one.",
        condition: "Open files are 90 % of the limit of this process.",
        remedy: "Raise the limit of open files (`LimitNOFILE=` of the unit); `tiderace doctor` names the command.",
        after: 0,
        lingers: LEVEL_LINGERS,
        level: Some(NEAR),
        look: |seen, percent| {
            let (now, most) = (seen.files_open?, seen.files_max);
            is_reached(now, most, percent)
                .then(|| format!("{now} files are open, and {most} may be"))
        },
    },
    AlarmRow {
        name: "log-lines-dropped",
        severity: Severity::Warning,
        cause: "Lines of the log are lost, since standard error is not read fast enough or cannot be written to.",
        condition: "A line of the log was dropped within the last minute.",
        remedy: "Look at what reads standard error, such as the journal and its limits (`RateLimitBurst=`); write less with `log.level`.",
        after: 0,
        lingers: EVENT_LINGERS,
        level: None,
        look: |seen, _| {
            let count = seen.log_lines_dropped;
            (count > 0).then(|| format!("{count} lines of the log were dropped"))
        },
    },
    AlarmRow {
        name: "logins-unanswered",
        severity: Severity::Critical,
        cause: "The server that knows the users does not answer, so that logins are refused.",
        condition: "A question about a login has failed, or was not asked since others had, within the last minute.",
        remedy: "Look at the server that `auth.http.url` names, and at the network on the way to it.",
        after: 0,
        lingers: EVENT_LINGERS,
        level: None,
        look: |seen, _| {
            let count = seen.logins_unanswered;
            (count > 0).then(|| format!("{count} questions about logins were not answered"))
        },
    },
    AlarmRow {
        name: "memory-full",
        severity: Severity::Critical,
        cause: "The memory budget is used up: new values and names are refused, backlogs are cut and publishers wait.",
        condition: "A shard has 99 % of its part of `memory.messages_bytes_max` in use, or more than its part.",
        remedy: "`tiderace connections ls --sort backlog` and `tiderace queues ls` say what waits; raise `memory.messages_bytes_max` if the machine has the memory.",
        after: 0,
        lingers: LEVEL_LINGERS,
        level: Some(FULL),
        look: |seen, percent| {
            let (shard, used, most) =
                fullest(seen).filter(|(_, used, most)| is_reached(*used, *most, percent))?;
            let (used, most) = (mebibytes(used), mebibytes(most));
            Some(format!("shard {shard} has {used} MiB in use, and {most} are its part"))
        },
    },
    AlarmRow {
        name: "memory-near-budget",
        severity: Severity::Warning,
        cause: "The memory budget is nearly used up; when it is, new values are refused and publishers wait.",
        condition: "A shard has 90 % of its part of `memory.messages_bytes_max` in use, also when that is full.",
        remedy: "`tiderace connections ls --sort backlog` and `tiderace queues ls` say what waits; raise `memory.messages_bytes_max` if the machine has the memory.",
        after: 0,
        lingers: LEVEL_LINGERS,
        level: Some(NEAR),
        look: |seen, percent| {
            let (shard, used, most) =
                fullest(seen).filter(|(_, used, most)| is_reached(*used, *most, percent))?;
            let (used, most) = (mebibytes(used), mebibytes(most));
            Some(format!("shard {shard} has {used} MiB in use, and {most} are its part"))
        },
    },
    AlarmRow {
        name: "publishers-paused",
        severity: Severity::Warning,
        cause: "Publishers are held back, since a queue is full or a subscriber of a topic is slow.",
        condition: "For 30 seconds there was always a connection that is not read for that reason.",
        remedy: "`tiderace queues ls` says which queue is full and who consumes from it; add consumers, or bound what is sent.",
        after: 30,
        lingers: LEVEL_LINGERS,
        level: None,
        look: |seen, _| {
            let count = seen.publishers_paused;
            (count > 0).then(|| format!("{count} connections of publishers are not read"))
        },
    },
    AlarmRow {
        name: "queue-messages-refused",
        severity: Severity::Critical,
        cause: "Messages for queues or consumers of queues are refused, since a queue is full or its owner has as much as it may.",
        condition: "A message or a consumer was refused for that reason within the last minute.",
        remedy: "`tiderace queues ls` says which queue is full and who consumes from it; add consumers, or raise the bounds of the queue.",
        after: 0,
        lingers: EVENT_LINGERS,
        level: None,
        look: |seen, _| {
            let count = seen.queue_messages_refused;
            (count > 0).then(|| format!("{count} messages or consumers of queues were refused"))
        },
    },
    AlarmRow {
        name: "queue-owner-near-quota",
        severity: Severity::Warning,
        cause: "The queues of a user hold nearly all the bytes that they may; what is sent to them will be refused.",
        condition: "An owner of queues has nearly all of `queues.principal_bytes_max`, until a sixteenth of that is free.",
        remedy: "`tiderace queues ls` says whose queues are large; have them consumed or purged, or raise the quota.",
        after: 0,
        lingers: LEVEL_LINGERS,
        level: None,
        look: |seen, _| {
            let count = seen.queue_owners_full;
            (count > 0).then(|| format!("{count} owners have nearly as much in queues as they may"))
        },
    },
    AlarmRow {
        name: "session-failed",
        severity: Severity::Warning,
        cause: "A session ended by a defect of the server; the others go on.",
        condition: "That has happened within the last hour.",
        remedy: "Report the line `session-panic` of the log with what stands around it.",
        after: 0,
        lingers: 3600,
        level: None,
        look: |seen, _| {
            let count = seen.session_panics;
            (count > 0).then(|| format!("{count} sessions ended by a defect of the server"))
        },
    },
    AlarmRow {
        name: "shard-stalled",
        severity: Severity::Critical,
        cause: "An event loop does not go on: its connections, topics and queues stand still.",
        condition: "A shard has ended no turn for 2 seconds; an idle one ends some twenty in a second.",
        remedy: "Look whether the machine has processors to spare (`top`, limits of the container) or is suspended; else report what `gdb -p` says of the thread `shard-N`, and restart the server.",
        after: 0,
        lingers: LEVEL_LINGERS,
        level: None,
        look: |seen, _| {
            let (shard, seconds) =
                seen.stalled.iter().find(|(_, seconds)| *seconds >= STALLED_SECONDS)?;
            Some(format!("shard {shard} has ended no turn for {seconds} seconds"))
        },
    },
    AlarmRow {
        name: "store-damaged",
        severity: Severity::Critical,
        cause: "Messages that were stored cannot be read back.",
        condition: "That has happened since the server was started.",
        remedy: "Look at the disk (`dmesg`, SMART) and restore a backup; `tiderace store check` on the stopped server says what is damaged.",
        after: 0,
        lingers: 0,
        level: None,
        look: |seen, _| {
            let count = seen.unreadable;
            (count > 0).then(|| format!("{count} stored records and messages cannot be read back"))
        },
    },
    AlarmRow {
        name: "store-failed",
        severity: Severity::Critical,
        cause: "The disk of the store has failed; nothing persistent is acknowledged until the server is started again.",
        condition: "From the failure until the end of the process.",
        remedy: "Look at the disk (`dmesg`, SMART), then start the server again; what was acknowledged is kept.",
        after: 0,
        lingers: 0,
        level: None,
        look: |seen, _| {
            let text = "the store has failed and keeps nothing from now on";
            seen.store_has_failed.then(|| text.to_owned())
        },
    },
    AlarmRow {
        name: "store-full",
        severity: Severity::Critical,
        cause: "The disk of the store is full: persistent messages are refused.",
        condition: "The last write to the store found no room.",
        remedy: "Make room on the disk or enlarge it; the server goes on by itself.",
        after: 0,
        lingers: LEVEL_LINGERS,
        level: None,
        look: |seen, _| {
            let text = "the disk of the store is full, and persistent messages are refused";
            seen.store_is_full.then(|| text.to_owned())
        },
    },
    AlarmRow {
        name: "store-queues-full",
        severity: Severity::Critical,
        cause: "Messages of queues have filled their share of the store and are refused.",
        condition: "Queues have as much in the store as `store.queue_bytes_max`.",
        remedy: "`tiderace queues ls` says which queues are large; consume or purge them, or raise `store.queue_bytes_max`.",
        after: 0,
        lingers: LEVEL_LINGERS,
        level: None,
        look: |seen, _| {
            let text =
                "queues have filled their share of the store, and their messages are refused";
            seen.store_queues_are_full.then(|| text.to_owned())
        },
    },
    AlarmRow {
        name: "upstream-away",
        severity: Severity::Critical,
        cause: "A server whose topics this one passes on is away or refuses it; clients see values that may be old.",
        condition: "The connection to an upstream was away for 5 seconds.",
        remedy: "`tiderace upstreams` says why; look at that server and at the network on the way to it.",
        after: 5,
        lingers: 0,
        level: None,
        look: |seen, _| {
            let one = |(name, why): &(String, Option<String>)| match why {
                Some(why) => format!("upstream {name} is away: {why}"),
                None => format!("upstream {name} is away"),
            };
            let all: Vec<String> =
                seen.upstreams_away.iter().take(UPSTREAMS_NAMED).map(one).collect();
            (!all.is_empty()).then(|| all.join("; "))
        },
    },
];

/// Upstreams that are named at once.
const UPSTREAMS_NAMED: usize = 8;

fn is_reached(now: u64, most: u64, percent: u64) -> bool {
    most > 0 && now.saturating_mul(100) >= most.saturating_mul(percent)
}

/// The shard with the least room, the bytes that it has in use, and its part of the budget.
fn fullest(seen: &Seen) -> Option<(usize, u64, u64)> {
    let shards = seen.memory.iter().enumerate().filter(|(_, (_, most))| *most > 0);
    let part = |(_, (used, most)): &(usize, &(u64, u64))| {
        u128::from(*used) * 1_000_000 / u128::from(*most)
    };
    shards.max_by_key(part).map(|(shard, (used, most))| (shard, *used, *most))
}

fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}

fn messages(count: u64) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

/// A stretch of time, for people.
fn span(seconds: u64) -> String {
    match seconds {
        ..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
