//! `include-seq` and `from-seq`: the numbers that messages have in their destinations.
#![allow(clippy::unwrap_used)]

use crate::support::Rig;
use tiderace_base::CloseCode;

fn send(rig: &mut Rig, destination: &str, count: usize) -> String {
    let frames = (0..count).map(|n| format!("SEND\ndestination:{destination}\nseq:own\n\n{n}\0"));
    rig.say(&frames.collect::<String>())
}

/// The numbers that messages say first, and their bodies.
fn numbers(said: &str) -> Vec<(&str, &str)> {
    let frames = said.split_terminator('\0').filter(|frame| !frame.contains("browser:end"));
    frames
        .map(|frame| {
            let number = frame.split("\nseq:").nth(1).unwrap().lines().next().unwrap();
            (number, frame.rsplit("\n\n").next().unwrap())
        })
        .collect()
}

#[test]
fn messages_say_their_number_before_what_their_publisher_says() {
    for mode in ["auto", "client"] {
        let mut rig = Rig::connected("1.2");
        // Other messages of the home have numbers too.
        send(&mut rig, "/queue/other", 3);
        send(&mut rig, "/queue/a", 3);
        let said = rig.say(&format!(
            "SUBSCRIBE\nid:1\ndestination:/queue/a\nack:{mode}\ninclude-seq:seq\n\n\0"
        ));
        let first: u64 = numbers(&said)[0].0.parse().unwrap();
        let expected = (0..3).map(|n| ((first + n).to_string(), n.to_string()));
        let expected: Vec<(String, String)> = expected.collect();
        let found =
            numbers(&said).into_iter().map(|(number, body)| (number.to_owned(), body.to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{said}");
    }
}

#[test]
fn of_two_subscriptions_each_is_told_what_it_asked_for() {
    let mut rig = Rig::connected("1.2");
    for (id, header) in [
        ("1", "include-seq:seq\n"),
        ("2", ""),
        ("3", "include-seq:n\n"),
        ("4", "deltas:vcdiff\ninclude-seq:n\n"),
    ] {
        rig.say(&format!("SUBSCRIBE\nid:{id}\ndestination:/topic/a\n{header}\n\0"));
    }
    let said = rig.say("SEND\ndestination:/topic/a\n\nx\0SEND\ndestination:/topic/a\n\ny\0");
    let frames: Vec<&str> = said.split_terminator('\0').collect();
    assert_eq!(frames.len(), 8, "{said}");
    for frame in frames {
        let id = frame.split("subscription:").nth(1).unwrap().lines().next().unwrap();
        let has = |name: &str| frame.contains(&format!("\n{name}:"));
        assert_eq!((has("seq"), has("n")), (id == "1", id == "3" || id == "4"), "{frame}");
        if id == "4" {
            let value = |name: &str| {
                let label = format!("\n{name}:");
                frame.split(&label).nth(1).unwrap().lines().next().unwrap().to_owned()
            };
            assert_eq!(value("n"), value("version"), "a topic counts its messages");
        }
    }
}

#[test]
fn a_subscription_begins_with_the_number_it_names() {
    let mut rig = Rig::connected("1.2");
    send(&mut rig, "/queue/a", 6);
    let browse = |from: &str| {
        format!(
            "SUBSCRIBE\nid:b{from}\ndestination:/queue/a\nbrowser:true\ninclude-seq:seq\nfrom-seq:{from}\n\n\0"
        )
    };
    let said = rig.say(&browse("0"));
    let all = numbers(&said);
    assert_eq!(all.len(), 6);
    let said = rig.say(&browse(all[2].0));
    assert_eq!(numbers(&said), all[2..]);
    let said = rig.say(&browse("-1"));
    assert_eq!(numbers(&said), [], "nothing of what is to come is there");
    let begin = "SUBSCRIBE\nid:n\ndestination:/queue/a\ninclude-seq:seq\nfrom-seq:-1\n\n\0";
    assert_eq!(rig.say(begin), "");
    let said = rig.say(&format!(
        "SUBSCRIBE\nid:c\ndestination:/queue/a\ninclude-seq:seq\nfrom-seq:{}\n\n\0",
        all[4].0
    ));
    assert_eq!(numbers(&said), all[4..]);
    rig.say("UNSUBSCRIBE\nid:c\n\n\0");
    let said = send(&mut rig, "/queue/a", 1);
    assert!(said.starts_with("MESSAGE\nsubscription:n\n"), "{said}");
    let said = rig.say("SUBSCRIBE\nid:c\ndestination:/queue/a\ninclude-seq:seq\n\n\0");
    assert_eq!(numbers(&said), all[..4]);
}

#[test]
fn of_a_topic_it_is_the_version_and_begins_in_what_the_topic_keeps() {
    let mut rig = Rig::connected("1.2");
    rig.say("SEND\ndestination:/topic/a\nretain:set\n\nvalue\0");
    let begin = |from: &str| {
        let said = rig.say(&format!(
            "SUBSCRIBE\nid:{from}\ndestination:/topic/a\ninclude-seq:seq\nfrom-seq:{from}\n\n\0"
        ));
        said.matches("MESSAGE\n").count()
    };
    // A topic that keeps no history has its value.
    assert_eq!(["-1", "0"].map(begin), [0, 1]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for headers in [
        "destination:/queue/a,/queue/b\nfrom-seq:3\n",
        "destination:/queue/*\nfrom-seq:3\n",
        "destination:/topic/**\nfrom-seq:-1\n",
        "destination:/topic/a\nfrom-seq:3\nreplay:last=1\n",
        "destination:/queue/a\nfrom-seq:-2\n",
        "destination:/queue/a\nfrom-seq:x\n",
        "destination:/queue/a\nfrom-seq:\n",
        "destination:/queue/a\ninclude-seq:\n",
        "destination:/queue/a\ninclude-seq:message-id\n",
        "destination:/queue/a\ninclude-seq:content-length\n",
        "destination:/queue/a\ninclude-seq:a b\n",
        "destination:/queue/a\ninclude-seq:a\\cb\n",
        "destination:/queue/a\ninclude-seq:ü\n",
    ] {
        let mut rig = Rig::connected("1.2");
        let said = rig.say(&format!("SUBSCRIBE\nid:1\n{headers}\n\0"));
        let code = rig.end.as_ref().map(|close| close.code);
        assert_eq!(code, Some(CloseCode::BadHeader), "{headers}: {said}");
    }
    // Several destinations say which one a message is of, so their numbers may be said.
    let mut rig = Rig::connected("1.2");
    rig.say("SUBSCRIBE\nid:1\ndestination:/queue/a,/topic/b.*\ninclude-seq:seq\n\n\0");
    assert!(rig.end.is_none());
}
