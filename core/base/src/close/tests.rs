use super::*;

#[test]
fn numbers_and_slugs_are_unique_and_sorted() {
    for pair in CLOSE_CODES.windows(2) {
        let [a, b] = pair else { unreachable!() };
        assert!(a.number < b.number, "{} before {}", a.slug, b.slug);
        assert!(CLOSE_CODES.iter().filter(|row| row.slug == a.slug).count() == 1);
    }
}

#[test]
fn every_code_finds_its_own_row() {
    for (index, row) in CLOSE_CODES.iter().enumerate() {
        assert_eq!(row.code.index(), index);
        assert_eq!(row.code.slug(), row.slug);
        assert_eq!(Close::from(row.code).reason, row.meaning);
    }
}

#[test]
fn what_is_looked_up_by_code_and_by_number_is_in_the_row() {
    for row in CLOSE_CODES {
        let code = row.code;
        assert_eq!(CloseCode::numbered(row.number), Some(code));
        assert_eq!((code.severity(), code.class()), (row.severity, row.class), "{}", row.slug);
        assert_eq!((code.websocket(), code.http()), (row.websocket, row.http), "{}", row.slug);
        assert_eq!(code.reconnects(), row.reconnect, "{}", row.slug);
    }
    assert_eq!(CloseCode::numbered(0), None);
}

#[test]
fn an_operation_is_answered_and_what_is_worse_is_an_end() {
    let mut told = Vec::new();
    let refused = Close::from(CloseCode::BadDestination);
    assert_eq!(refused.answered(|close| told.push(close.code)), Ok(()));
    for code in [CloseCode::HeartBeatTimeout, CloseCode::InternalError] {
        let ended = Close::from(code);
        assert_eq!(ended.clone().answered(|close| told.push(close.code)), Err(ended));
    }
    assert_eq!(told, [CloseCode::BadDestination]);
}

#[test]
fn every_row_says_what_to_do() {
    for row in CLOSE_CODES {
        assert!(row.meaning.ends_with('.') && row.remedy.ends_with('.'), "{}", row.slug);
        assert!((400..600).contains(&row.http), "{}", row.slug);
    }
}
