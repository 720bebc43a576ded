//! What a publisher may say to a queue of a message: when it is to be delivered, to which group it belongs, and how urgent
//! it is.
//!
//! What was said travels as a property in one canonical form, with a mark that spares everybody else a look at the
//! properties; so it is stored with the message and told to its consumer. Relies on `properties`. Invariant: a message
//! with the mark has the property, with a value that can be read.

use std::borrow::Cow;

use tiderace_base::{Close, CloseCode, Now};

use crate::{Flags, Kind, Message, PRIORITY_MAX, properties};

/// The property that says when a message is to be delivered, in milliseconds since 1970.
const DELIVER_AT: &str = "deliver-at";
/// The field that says after how many milliseconds; receivers are told the time instead.
const DELAY: &str = "delay";

/// The property that names the group of a message.
const GROUP: &str = "message_group";
/// Bytes of the name of a group, as its publisher says it.
const GROUP_BYTES_MAX: usize = 256;

/// The property that says how urgent a message is: from 0 to 9, the most urgent.
const PRIORITY: &str = "priority";

/// What a publisher says of one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFields<'a> {
    /// After how many milliseconds it is to be delivered.
    pub delay_ms: Option<u64>,
    /// When, in milliseconds since 1970; this counts if both are said.
    pub deliver_at_ms: Option<u64>,
    /// To which group it belongs.
    pub group: Option<Cow<'a, str>>,
    /// How urgent it is: from 0 to 9, the most urgent.
    pub priority: Option<u8>,
}

impl<'a> QueueFields<'a> {
    /// Reads the fields among properties, where they have the names that STOMP gives them.
    ///
    /// # Errors
    /// When a value makes no sense.
    pub fn read(block: &'a [u8]) -> Result<QueueFields<'a>, Close> {
        Ok(QueueFields {
            delay_ms: milliseconds(block, DELAY)?,
            deliver_at_ms: milliseconds(block, DELIVER_AT)?,
            group: properties::find(block, GROUP),
            priority: properties::find(block, PRIORITY)
                .map(|text| QueueFields::parse_priority(&text))
                .transpose()?,
        })
    }

    /// Whether a property is one of the fields, which [`QueueFields::append`] writes anew.
    pub fn has(name: &[u8]) -> bool {
        [DELAY, DELIVER_AT, GROUP, PRIORITY].iter().any(|field| name == field.as_bytes())
    }

    /// Appends what was said of a message to a destination of that kind to its properties; the marks that go with it.
    ///
    /// # Errors
    /// When something is said that only queues heed, of a message that goes elsewhere.
    pub fn append(&self, now: Now, kind: Kind, block: &mut Vec<u8>) -> Result<Flags, Close> {
        let time = self.append_time(now, kind, block)?;
        let urgency = self.append_priority(kind, block)?;
        let Some(group) = &self.group else { return Ok(time | urgency) };
        if !(1..=GROUP_BYTES_MAX).contains(&group.len()) {
            let bytes = group.len();
            let reason = format!(
                "the group of a message has {bytes} bytes; 1 to {GROUP_BYTES_MAX} do (`{GROUP}`)"
            );
            return Err(Close::new(CloseCode::BadGroup, reason));
        }
        let start = block.len();
        properties::append(block, GROUP, group);
        let is_escaped = block.get(start..).is_some_and(|line| line.contains(&b'\\'));
        let mark = |on, mark| if on { mark } else { Flags::NONE };
        let group = mark(kind == Kind::Queue, Flags::GROUPED);
        Ok(time | urgency | group | mark(is_escaped, Flags::ESCAPED))
    }

    fn append_priority(&self, kind: Kind, block: &mut Vec<u8>) -> Result<Flags, Close> {
        let Some(priority) = self.priority else { return Ok(Flags::NONE) };
        if priority > PRIORITY_MAX {
            return Err(bad_priority(&priority.to_string()));
        }
        properties::append(block, PRIORITY, &priority.to_string());
        Ok(if kind == Kind::Queue { Flags::of_priority(priority) } else { Flags::NONE })
    }

    fn append_time(&self, now: Now, kind: Kind, block: &mut Vec<u8>) -> Result<Flags, Close> {
        let after = self.delay_ms.map(|delay| now.wall_ms.saturating_add(delay));
        let Some(deliver_at) = self.deliver_at_ms.or(after) else { return Ok(Flags::NONE) };
        if kind != Kind::Queue {
            let reason = "only messages of queues are delayed: leave `delay` and `deliver-at` out, or send to a queue";
            return Err(Close::new(CloseCode::BadSchedule, reason));
        }
        if deliver_at <= now.wall_ms {
            return Ok(Flags::NONE);
        }
        properties::append(block, DELIVER_AT, &deliver_at.to_string());
        Ok(Flags::DELAYED)
    }

    /// The marks of a message whose properties name a group or a priority, although it was not sent to a queue, for one
    /// that it comes to.
    pub fn marks(block: &[u8]) -> Flags {
        let (mut group, mut priority) = (None, None);
        for (name, value) in properties::raw(block) {
            match name {
                _ if name == GROUP.as_bytes() => group = group.or(Some(value)),
                _ if name == PRIORITY.as_bytes() => priority = priority.or(Some(value)),
                _ => {}
            }
        }
        // With escapes in place it may be longer than its publisher has said it.
        let is_group = (1..=2 * GROUP_BYTES_MAX).contains(&group.map_or(0, <[u8]>::len));
        let group = if is_group { Flags::GROUPED } else { Flags::NONE };
        group | priority.and_then(digit).map_or(Flags::NONE, Flags::of_priority)
    }

    /// Reads a priority that was given for a field.
    ///
    /// # Errors
    /// When it is no whole number from 0 to 9.
    pub fn parse_priority(text: &str) -> Result<u8, Close> {
        digit(text.as_bytes()).ok_or_else(|| bad_priority(text))
    }

    /// The same of a number.
    ///
    /// # Errors
    /// When it is above 9, or was none that could be read.
    pub fn check_priority(number: Option<u64>, text: &str) -> Result<u8, Close> {
        let number = number.and_then(|number| u8::try_from(number).ok());
        number.filter(|number| *number <= PRIORITY_MAX).ok_or_else(|| bad_priority(text))
    }

    /// Reads a number of milliseconds that was given for a field.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse_milliseconds(name: &str, text: &str) -> Result<u64, Close> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse().ok().filter(|_| is_number) {
            Some(number) => Ok(number),
            None => {
                let reason =
                    format!("`{name}:{}` is no number of milliseconds", crate::shown(text));
                Err(Close::new(CloseCode::BadSchedule, reason))
            }
        }
    }
}

impl Message<'_> {
    /// When its queue is to deliver it, in milliseconds since 1970, if it is not to do so at once.
    pub fn deliver_at_ms(&self) -> Option<u64> {
        if !self.flags.contains(Flags::DELAYED) {
            return None;
        }
        properties::find(self.properties, DELIVER_AT)?.parse().ok()
    }

    /// To which group it belongs, with the escapes of its property in place.
    pub fn group(&self) -> Option<&[u8]> {
        if !self.flags.contains(Flags::GROUPED) {
            return None;
        }
        properties::raw(self.properties)
            .find(|(name, _)| *name == GROUP.as_bytes())
            .map(|(_, group)| group)
    }
}

/// The number that one digit is.
fn digit(text: &[u8]) -> Option<u8> {
    match text {
        [digit @ b'0'..=b'9'] => Some(digit - b'0'),
        _ => None,
    }
}

fn bad_priority(text: &str) -> Close {
    let reason =
        format!("`priority:{}` is no whole number from 0 to {PRIORITY_MAX}", crate::shown(text));
    Close::new(CloseCode::BadPriority, reason)
}

fn milliseconds(block: &[u8], name: &str) -> Result<Option<u64>, Close> {
    let text = properties::find(block, name);
    text.map(|text| QueueFields::parse_milliseconds(name, &text)).transpose()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::Time;

    const NOW: Now = Now { time: Time::ZERO, wall_ms: 1_000 };

    fn appended(block: &[u8], kind: Kind) -> Result<(String, Flags), CloseCode> {
        let mut out = Vec::new();
        let fields = QueueFields::read(block).map_err(|close| close.code)?;
        let flags = fields.append(NOW, kind, &mut out).map_err(|close| close.code)?;
        Ok((String::from_utf8(out).unwrap(), flags))
    }

    #[test]
    fn a_time_is_said_in_one_form() {
        for (block, expected) in [
            ("a:b\n", ""),
            ("delay:500\n", "deliver-at:1500\n"),
            ("deliver-at:1001\n", "deliver-at:1001\n"),
            ("delay:500\ndeliver-at:9000\n", "deliver-at:9000\n"),
            ("delay:0\n", ""),
            ("deliver-at:1000\n", ""),
            ("deliver-at:3\n", ""),
            ("delay:18446744073709551615\n", "deliver-at:18446744073709551615\n"),
        ] {
            let flags = if expected.is_empty() { Flags::NONE } else { Flags::DELAYED };
            let found = appended(block.as_bytes(), Kind::Queue);
            assert_eq!(found, Ok((expected.to_owned(), flags)), "{block}");
        }
    }

    #[test]
    fn nonsense_is_refused_and_so_is_a_delay_of_what_goes_to_no_queue() {
        for value in ["", "-1", "+1", "soon", "1.5", "1e3", " 1", "18446744073709551616", "0x10"] {
            for name in ["delay", "deliver-at"] {
                let block = format!("{name}:{value}\n");
                let found = appended(block.as_bytes(), Kind::Queue);
                assert_eq!(found, Err(CloseCode::BadSchedule), "{block}");
            }
        }
        for kind in [Kind::Topic, Kind::Service] {
            assert_eq!(appended(b"delay:5\n", kind), Err(CloseCode::BadSchedule));
            assert_eq!(appended(b"a:b\n", kind), Ok((String::new(), Flags::NONE)));
        }
    }

    #[test]
    fn a_group_is_a_name_of_some_bytes() {
        let long = "g".repeat(GROUP_BYTES_MAX);
        for (block, expected) in [
            ("message_group:a\n", Ok("message_group:a\n")),
            ("message_group:a\\cb\n", Ok("message_group:a\\cb\n")),
            ("message_group:\n", Err(CloseCode::BadGroup)),
            (&format!("message_group:{long}\n"), Ok(&*format!("message_group:{long}\n"))),
            (&format!("message_group:{long}g\n"), Err(CloseCode::BadGroup)),
        ] {
            let marks = |block: &str| match block.contains('\\') {
                true => Flags::GROUPED | Flags::ESCAPED,
                false => Flags::GROUPED,
            };
            let expected = expected.map(|block| (block.to_owned(), marks(block)));
            assert_eq!(appended(block.as_bytes(), Kind::Queue), expected, "{block}");
        }
        let both = appended(b"message_group:a\ndelay:5\n", Kind::Queue).unwrap();
        assert_eq!(both.0, "deliver-at:1005\nmessage_group:a\n");
        assert!(both.1.contains(Flags::GROUPED) && both.1.contains(Flags::DELAYED));
    }

    #[test]
    fn a_priority_is_one_digit() {
        for priority in 0..=PRIORITY_MAX {
            let block = format!("priority:{priority}\n");
            let found = appended(block.as_bytes(), Kind::Queue).unwrap();
            assert_eq!((&found.0, found.1.priority()), (&block, priority));
            assert_eq!(QueueFields::marks(block.as_bytes()), found.1, "{block}");
            let topic = appended(block.as_bytes(), Kind::Topic);
            assert_eq!(topic, Ok((block, Flags::NONE)), "it is told to who gets it");
        }
        assert_eq!(appended(b"a:b\n", Kind::Queue).unwrap().1.priority(), 4);
        for value in ["", "10", "-1", "+1", "05", "1.0", " 1", "high", "\u{661}", "1\\n"] {
            let block = format!("priority:{value}\n");
            let found = appended(block.as_bytes(), Kind::Queue);
            assert_eq!(found, Err(CloseCode::BadPriority), "{block}");
            assert_eq!(QueueFields::marks(block.as_bytes()), Flags::NONE, "{block}");
        }
        let all = b"priority:7\nmessage_group:a\npriority:2\n";
        let marks = QueueFields::marks(all);
        assert!(marks.contains(Flags::GROUPED) && marks.priority() == 7, "the first one counts");
        let fields = QueueFields { priority: Some(10), ..QueueFields::default() };
        let refused = fields.append(NOW, Kind::Topic, &mut Vec::new()).unwrap_err();
        assert_eq!(refused.code, CloseCode::BadPriority);
        for (number, expected) in [
            (Some(0), Some(0)),
            (Some(9), Some(9)),
            (Some(10), None),
            (Some(u64::MAX), None),
            (None, None),
        ] {
            assert_eq!(QueueFields::check_priority(number, "x").ok(), expected);
        }
    }
}
