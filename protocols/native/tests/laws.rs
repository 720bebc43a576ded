//! Laws of the codec: what is written is read back, and no bytes panic.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use tiderace_native::codec::{
    AddressList, AsMessage, Auth, CallMessage, ClientMessage, ConsumerMessage, Destination,
    ExchangeMessage, Hello, Messages, Nodes, Numbers, OperateMessage, PrincipalMessage, Publish,
    Queued, QueuedEntries, QueuedEntry, ResultMessage, SendMessage, ServerMessage, SettleMessage,
    SubscribeMessage, Update, Updates, Version, Welcome, flag, subscribe,
};
use tiderace_wire::{Kind, Prefetch, Replay};

/// Values that messages borrow.
#[derive(Clone, Debug)]
struct Stock {
    texts: [String; 3],
    bytes: [Vec<u8>; 2],
    properties: String,
    numbers: [u64; 3],
    small: [u32; 4],
    flags: u8,
    wide: u64,
    bits: [bool; 3],
}

fn stock() -> impl Strategy<Value = Stock> {
    (
        ([".{0,12}", ".{0,12}", ".{0,200}"], [bytes(40), bytes(300)]),
        prop_oneof![Just(String::new()), "([a-z]{1,4}:[a-z ]{0,5}\n){1,3}"],
        (any::<[u64; 3]>(), any::<[u32; 4]>(), any::<u8>(), any::<u64>(), any::<[bool; 3]>()),
    )
        .prop_map(|((texts, bytes), properties, (numbers, small, flags, wide, bits))| Stock {
            texts,
            bytes,
            properties,
            numbers,
            small,
            flags,
            wide,
            bits,
        })
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..most)
}

fn client(stock: &Stock) -> Vec<ClientMessage<'_>> {
    let Stock { texts: [a, b, c], bytes: [x, y], small, numbers, flags, bits, .. } = stock;
    let [one, two, three, _] = *small;
    let kind = [Kind::Topic, Kind::Queue, Kind::Service][one as usize % 3];
    let auth = [Auth::Anonymous, Auth::Password { user: a, password: b }, Auth::Token(c)]
        [two as usize % 3];
    let destination =
        if bits[0] { Destination::Path(kind, a) } else { Destination::Declared(one.max(1)) };
    let properties = stock.properties.as_bytes();
    let (first, last) = (numbers[0].min(numbers[1]), numbers[0].max(numbers[1]));
    vec![
        ClientMessage::Hello(Hello {
            version: stock.wide,
            auth,
            codecs: numbers.to_vec(),
            client: a,
            position: x,
            host: bits[1].then_some(b.as_str()),
            edge: ["edge", ""].get(two as usize % 3).copied(),
        }),
        ClientMessage::Login { request: one, auth },
        ClientMessage::Subscribe(SubscribeMessage {
            request: one,
            subscription: two,
            flags: stock.wide
                & subscribe::ALL
                & !(subscribe::SELECTOR
                    | subscribe::WINDOW
                    | subscribe::RESUME
                    | subscribe::REPLAY
                    | subscribe::INTERVAL
                    | subscribe::START
                    | subscribe::CREDIT),
            kind,
            path: a,
            selector: bits[0].then_some(b.as_str()),
            prefetch: bits[1].then_some(Prefetch { messages: one, bytes: three }),
            position: bits[2].then_some(x.as_slice()),
            replay: [
                None,
                Some(Replay::Last(two)),
                Some(Replay::Version(numbers[1])),
                Some(Replay::Time(numbers[2])),
            ][three as usize % 4],
            interval_ms: bits[0].then_some(numbers[0]),
            start: bits[1].then_some(numbers[1]),
            credit: bits[2].then_some(numbers[2]),
        }),
        ClientMessage::Consumer(ConsumerMessage::Grant {
            subscription: two,
            messages: numbers[0].max(1),
        }),
        ClientMessage::Consumer(ConsumerMessage::Release {
            subscription: two,
            home: one as u16,
            ranges: vec![(first, last)],
        }),
        ClientMessage::Consumer(ConsumerMessage::Lost { request: one, subscription: two }),
        ClientMessage::Unsubscribe { request: one, subscription: two },
        ClientMessage::Declare { declared: one, kind, path: a },
        ClientMessage::Publish(Publish {
            request: one,
            flags: flags & (flag::CONTENT | flag::RETAIN | flag::REMOVE | flag::PERSISTENT),
            destination,
            expires_ms: bits[1].then_some(stock.wide),
            properties,
            body: y,
        }),
        ClientMessage::Settle(SettleMessage {
            request: one,
            subscription: two,
            home: three as u16,
            reject: bits[0],
            ranges: vec![(first, last), (last, last)],
        }),
        ClientMessage::Call(CallMessage {
            number: one,
            flags: flags & (flag::CONTENT | flag::LAST),
            timeout_ms: stock.wide,
            destination,
            credit: bits[1].then_some(stock.wide),
            properties,
            body: y,
        }),
        ClientMessage::Want { number: one, messages: stock.wide },
        ClientMessage::Send(SendMessage {
            number: one,
            flags: flags & (flag::CONTENT | flag::LAST | flag::RESPONDER),
            properties,
            body: y,
        }),
        ClientMessage::Cancel { responder: bits[0], number: one, code: two as u16, sentence: c },
        ClientMessage::Credit { bytes: stock.wide },
        ClientMessage::Ping(x),
        ClientMessage::Bye,
        ClientMessage::Operate(OperateMessage {
            request: one,
            operation: c,
            body: bits[2].then_some(y.as_slice()),
        }),
        ClientMessage::Principal(PrincipalMessage {
            id: one,
            anonymous: bits[0],
            name: a,
            groups: [b.as_str(), c].into_iter().take(two as usize % 3).collect(),
            claims: [(a.as_str(), c.as_str()), (b, b)].into_iter().take(one as usize % 3).collect(),
        }),
        ClientMessage::As(AsMessage { principal: two, messages: y }),
    ]
}

fn server(stock: &Stock) -> Vec<ServerMessage<'_>> {
    let Stock { texts: [a, b, c], bytes: [x, y], small, numbers, flags, bits, .. } = stock;
    let [one, two, three, four] = *small;
    let called = flags & (flag::RESPONDER | flag::FIRST) == flag::RESPONDER | flag::FIRST;
    vec![
        ServerMessage::Welcome(Welcome {
            version: stock.wide,
            name: a,
            epoch: x,
            ping_ms: numbers[0],
            message_bytes_max: numbers[1],
            subscriptions_max: numbers[2],
            declarations_max: 4,
            jitter_ms: 5,
            codecs: numbers.to_vec(),
            server: b,
            features: numbers[0],
            node: c,
        }),
        ServerMessage::Ok { first: one.min(two), last: one.max(two) },
        ServerMessage::Error { request: one, code: two as u16, slug: a, sentence: c },
        ServerMessage::Topic { topic: one, subscription: two, path: a },
        ServerMessage::Updates(y),
        ServerMessage::Queued(Queued {
            flags: flags & flag::ANNOUNCED,
            id: one,
            home: two as u16,
            first: stock.wide,
            redeliveries: three,
            entries: y,
        }),
        ServerMessage::Exchange(ExchangeMessage {
            flags: flags & 0x7b,
            number: four,
            id: called.then_some(three),
            properties: stock.properties.as_bytes(),
            body: y,
        }),
        ServerMessage::Position(vec![(u64::from(one), numbers[0]), (u64::from(two), numbers[1])]),
        ServerMessage::Recovered { request: one, complete: bits[0], continues: bits[1] },
        ServerMessage::Ended { responder: bits[0], number: one, code: 5, slug: a, sentence: c },
        ServerMessage::Pong(x),
        ServerMessage::Close {
            code: 7,
            slug: a,
            sentence: b,
            reconnect: bits[1],
            jitter_ms: 9,
            addresses: if bits[0] { AddressList::EMPTY } else { AddressList::Given("a://b,c://d") },
        },
        ServerMessage::LoggedIn { request: one, name: a },
        ServerMessage::Result(ResultMessage { request: one, result: c, entries: y }),
        ServerMessage::Joined { subscription: two, path: a, spec: c, is_empty: one % 2 == 1 },
        ServerMessage::Left { subscription: two, path: b, reason: a },
        ServerMessage::Follows { flags: flags & flag::ANNOUNCED, id: one, version: stock.wide },
        ServerMessage::Browsed { subscription: two },
        ServerMessage::Unsubscribed { subscription: one, code: 9, slug: a, sentence: b },
        ServerMessage::Nodes(Nodes { hops: stock.wide, names: vec![a; two as usize % 3] }),
        ServerMessage::Wanted { number: one, messages: stock.wide },
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(stock in stock()) {
        let (mut bytes, ours) = (Vec::new(), client(&stock));
        ours.iter().for_each(|message| message.write(&mut bytes));
        for (read, message) in Messages::new(&bytes).zip(&ours) {
            let (kind, payload) = read.unwrap();
            prop_assert_eq!(&ClientMessage::read(kind, payload).unwrap(), message);
        }
        prop_assert_eq!(Messages::new(&bytes).count(), ours.len());
        let (mut bytes, theirs) = (Vec::new(), server(&stock));
        theirs.iter().for_each(|message| message.write(&mut bytes));
        for (read, message) in Messages::new(&bytes).zip(&theirs) {
            let (kind, payload) = read.unwrap();
            prop_assert_eq!(&ServerMessage::read(kind, payload).unwrap(), message);
        }
        prop_assert_eq!(Messages::new(&bytes).count(), theirs.len());
    }

    #[test]
    fn entries_are_read_back(
        stocks in proptest::collection::vec(stock(), 0..6),
        are_numbered: bool,
    ) {
        let updates: Vec<Update<'_>> = stocks.iter().map(|stock| Update {
            flags: stock.flags & (flag::CONTENT | flag::ANNOUNCED | flag::DELTA | flag::REMOVED | flag::VALUE),
            id: stock.small[0],
            version: if stock.bits[0] { Version::Full(stock.wide) } else { Version::Low(stock.wide as u16) },
            numbers: are_numbered.then_some(Numbers {
                numbering: stock.numbers[0],
                number: stock.wide,
                reached: stock.numbers[1],
            }),
            properties: stock.properties.as_bytes(),
            data: &stock.bytes[1],
        }).collect();
        let mut bytes = Vec::new();
        updates.iter().for_each(|update| update.write(&mut bytes));
        let read = if are_numbered { Updates::numbered(&bytes) } else { Updates::new(&bytes) };
        prop_assert_eq!(read.map(Result::unwrap).collect::<Vec<_>>(), updates);
        let entries: Vec<QueuedEntry<'_>> = stocks.iter().map(|stock| QueuedEntry {
            flags: stock.flags & flag::CONTENT,
            properties: stock.properties.as_bytes(),
            body: &stock.bytes[1],
        }).collect();
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.write(&mut bytes));
        prop_assert_eq!(QueuedEntries::new(&bytes).map(Result::unwrap).collect::<Vec<_>>(), entries);
    }

    #[test]
    fn any_version_is_found_again(last: u64, step in 1u64..=65_536) {
        let version = last.wrapping_add(step);
        prop_assert_eq!(Version::Low(version as u16).after(last), version);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in bytes(200), kind: u8) {
        let _ = ClientMessage::read(kind % 16, &bytes);
        if let Ok(ServerMessage::Updates(entries)) = ServerMessage::read(0x40 + kind % 20, &bytes) {
            let _ = Updates::new(entries).count();
        }
        let _ = QueuedEntries::new(&bytes).count();
        for message in Messages::new(&bytes).flatten() {
            let _ = ClientMessage::read(message.0, message.1);
            let _ = ServerMessage::read(message.0, message.1);
        }
    }
}
