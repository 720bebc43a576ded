//! Expressions written so that their automata become small.
//!
//! Relies on texts being UTF-8. Invariant: what is returned fits the same texts.

use regex_syntax::hir::{self, Hir, HirKind};

/// Writes classes that hold all characters beyond ASCII, such as `.`, as "a leading byte and what
/// continues it": texts are UTF-8, so that is one character, and the automata become ten times
/// smaller. Groups that only capture go.
pub(crate) fn shorten(hir: Hir) -> Hir {
    match hir.into_kind() {
        HirKind::Class(hir::Class::Unicode(class)) => match beyond_ascii(&class) {
            Some(ascii) => {
                let one = |from, to| {
                    let range = hir::ClassBytesRange::new(from, to);
                    Hir::class(hir::Class::Bytes(hir::ClassBytes::new([range])))
                };
                let sub = Box::new(one(0x80, 0xbf));
                let continued = hir::Repetition { min: 0, max: None, greedy: true, sub };
                let wide = Hir::concat(vec![one(0xc2, 0xf4), Hir::repetition(continued)]);
                Hir::alternation(vec![Hir::class(hir::Class::Bytes(ascii)), wide])
            }
            None => Hir::class(hir::Class::Unicode(class)),
        },
        HirKind::Repetition(repetition) => {
            let sub = Box::new(shorten(*repetition.sub));
            Hir::repetition(hir::Repetition { sub, ..repetition })
        }
        HirKind::Capture(capture) => shorten(*capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(shorten).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(shorten).collect()),
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Look(look) => Hir::look(look),
    }
}

/// The ASCII part of a class that holds everything else.
fn beyond_ascii(class: &hir::ClassUnicode) -> Option<hir::ClassBytes> {
    let last = class.ranges().last()?;
    if last.start() > '\u{80}' || last.end() != char::MAX {
        return None;
    }
    let ascii = class.ranges().iter().filter(|range| range.start().is_ascii()).map(|range| {
        hir::ClassBytesRange::new(range.start() as u8, (range.end() as u32).min(0x7f) as u8)
    });
    Some(hir::ClassBytes::new(ascii))
}
