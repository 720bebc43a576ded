//! Signed tokens as an enemy makes them: changed, signed otherwise, out of their time, for somebody else.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tiderace_auth::jwt::{
    Algorithm, Issuer, IssuerOptions, Key, KeyError, KeyFetcher, KeyStore, TOKEN_BYTES_MAX,
    TokenProblem, parse_key_set, sign,
};
use tiderace_auth::{
    AnonymousAccess, AuthWorker, FailurePolicy, Issuers, LoginError, LoginRequest, Principal,
    Verifier,
};
use tiderace_wire::Credentials;

const SECRET: &[u8] = b"a secret of thirty-two bytes, ok";
const NOW: u64 = 1_800_000_000;

fn options() -> IssuerOptions {
    IssuerOptions {
        name: "test".to_owned(),
        leeway: Duration::from_secs(30),
        name_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
        claims: vec!["tenant".to_owned(), "org.id".to_owned()],
        credential: None,
        ..IssuerOptions::default()
    }
}

fn issuers_with(options: IssuerOptions, keys: Vec<Key>) -> Issuers {
    Issuers::new(vec![Issuer::new(options, KeyStore::new(keys))])
}

fn issuers() -> Issuers {
    issuers_with(options(), vec![Key::secret(SECRET, &[]).unwrap()])
}

fn claims() -> Value {
    json!({ "sub": "ann", "groups": ["staff", "sales"], "exp": NOW + 60, "tenant": "acme" })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn hs(claims: &Value) -> String {
    sign(claims, SECRET, Algorithm::Hs256).unwrap()
}

/// A token with any header, signed by whatever.
fn by_hand(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn problem(issuers: &Issuers, token: &str) -> TokenProblem {
    let mut problems = issuers.verify(token, NOW).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.remove(0)
}

#[test]
fn a_token_says_who_its_bearer_is_and_for_how_long() {
    let claims = json!({
        "sub": "ann", "groups": ["staff", "Domain Users"], "exp": NOW + 60, "nbf": NOW,
        "tenant": ["acme", "umbra", 7, {"no": 1}], "org": {"id": true}, "other": "x",
    });
    let ann = issuers().verify(&hs(&claims), NOW).unwrap();
    assert_eq!(ann.name().map(|name| &**name), Some("ann"));
    let groups: Vec<&str> = ann.groups().iter().map(|group| &**group).collect();
    assert_eq!(groups, ["staff", "Domain Users"]);
    assert_eq!(ann.valid_until(), Some(NOW + 90), "with the leeway");
    let known: Vec<(&str, &str)> =
        ann.claims().iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(
        known,
        [("tenant", "acme"), ("tenant", "umbra"), ("tenant", "7"), ("org.id", "true")]
    );
    let words = with("groups", json!("staff sales"));
    assert_eq!(issuers().verify(&hs(&words), NOW).unwrap().groups().len(), 2);
}

#[test]
fn the_time_counts_with_the_leeway() {
    let rows = [
        (json!(NOW - 29), Value::Null, None),
        (json!(NOW - 30), Value::Null, Some(TokenProblem::Expired)),
        (json!(1.8e9 + 60.5), Value::Null, None),
        (json!(-5), Value::Null, Some(TokenProblem::Claim("exp".to_owned()))),
        (json!("1900000000"), Value::Null, Some(TokenProblem::Claim("exp".to_owned()))),
        (Value::Null, Value::Null, Some(TokenProblem::Claim("exp".to_owned()))),
        (json!(1e300), Value::Null, Some(TokenProblem::Claim("exp".to_owned()))),
        (json!(u64::MAX), Value::Null, None),
        (json!(NOW + 60), json!(NOW + 30), None),
        (json!(NOW + 60), json!(NOW + 31), Some(TokenProblem::NotYet)),
        (json!(NOW + 60), json!("soon"), Some(TokenProblem::Claim("nbf".to_owned()))),
    ];
    for (exp, nbf, expected) in rows {
        let mut claims = with("exp", exp.clone());
        if !nbf.is_null() {
            claims["nbf"] = nbf.clone();
        }
        let found = issuers().verify(&hs(&claims), NOW).err().map(|mut all| all.remove(0));
        assert_eq!(found, expected, "exp {exp}, nbf {nbf}");
    }
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove("exp");
    assert_eq!(problem(&issuers(), &hs(&claims)), TokenProblem::Claim("exp".to_owned()));
}

#[test]
fn a_token_for_somebody_else_or_from_somebody_else_is_refused() {
    let key = || vec![Key::secret(SECRET, &[]).unwrap()];
    let ours = IssuerOptions {
        issuer: Some("https://id.example.org".to_owned()),
        audience: vec!["live".to_owned(), "push".to_owned()],
        ..options()
    };
    let issuers = issuers_with(ours, key());
    let token = |iss: Value, aud: Value| {
        let mut claims = claims();
        (claims["iss"], claims["aud"]) = (iss, aud);
        hs(&claims)
    };
    let right = json!("https://id.example.org");
    assert!(issuers.verify(&token(right.clone(), json!("push")), NOW).is_ok());
    assert!(issuers.verify(&token(right.clone(), json!(["x", "live"])), NOW).is_ok());
    for aud in [json!("other"), json!([]), json!(["x"]), Value::Null, json!(5)] {
        assert_eq!(problem(&issuers, &token(right.clone(), aud)), TokenProblem::Audience);
    }
    for iss in [json!("https://evil.example.org"), Value::Null, json!([right])] {
        assert_eq!(problem(&issuers, &token(iss, json!("live"))), TokenProblem::Issuer);
    }
    let anybodys = issuers_with(options(), key());
    assert_eq!(problem(&anybodys, &hs(&with("aud", json!("other")))), TokenProblem::Audience);
}

#[test]
fn names_and_groups_that_could_mean_others_are_refused() {
    for name in [json!("*"), json!("a b"), json!(""), json!(7), Value::Null, json!("x".repeat(129))]
    {
        let found = problem(&issuers(), &hs(&with("sub", name)));
        assert_eq!(found, TokenProblem::Claim("sub".to_owned()));
    }
    let many: Vec<String> = (0..300).map(|number| format!("g{number}")).collect();
    for groups in [json!(["ok", "*"]), json!(["ok", 7]), json!([""]), json!({"a": 1}), json!(many)]
    {
        let found = problem(&issuers(), &hs(&with("groups", groups)));
        assert_eq!(found, TokenProblem::Claim("groups".to_owned()));
    }
}

#[test]
fn no_algorithm_but_the_keys_own_is_accepted() {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .unwrap();
    let point = pair.public_key().as_ref().to_vec();
    let set = json!({ "keys": [{
        "kty": "EC", "crv": "P-256", "kid": "e1",
        "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..]),
    }]});
    let keys = parse_key_set(&set.to_string(), &[], false).unwrap();
    let issuers = issuers_with(options(), keys);
    let es = |message: &[u8]| pair.sign(&random, message).unwrap().as_ref().to_vec();
    let header = |alg: &str| json!({ "alg": alg, "kid": "e1" });
    assert!(issuers.verify(&by_hand(&header("ES256"), &claims(), es), NOW).is_ok());

    // The public key as a secret, and all other names for a signature that is right.
    let with_public_key = |message: &[u8]| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &point);
        ring::hmac::sign(&key, message).as_ref().to_vec()
    };
    let confused = by_hand(&header("HS256"), &claims(), with_public_key);
    assert_eq!(problem(&issuers, &confused), TokenProblem::UnknownKey);
    for alg in ["HS256", "RS256", "PS256", "ES384", "EdDSA", "none", "None", "", "es256"] {
        assert!(issuers.verify(&by_hand(&header(alg), &claims(), es), NOW).is_err(), "{alg}");
    }
    for header in [json!({ "kid": "e1" }), json!({ "alg": null }), json!({ "alg": ["ES256"] })] {
        assert!(issuers.verify(&by_hand(&header, &claims(), es), NOW).is_err(), "{header}");
    }
    let unsigned = by_hand(&header("none"), &claims(), |_| Vec::new());
    assert!(issuers.verify(&unsigned, NOW).is_err());
    let critical = json!({ "alg": "ES256", "kid": "e1", "crit": ["exp"] });
    assert_eq!(
        problem(&issuers, &by_hand(&critical, &claims(), es)),
        TokenProblem::Form("it has `crit`")
    );
    let other = json!({ "alg": "ES256", "kid": "e2" });
    assert_eq!(problem(&issuers, &by_hand(&other, &claims(), es)), TokenProblem::UnknownKey);
    let nameless = json!({ "alg": "ES256" });
    assert!(issuers.verify(&by_hand(&nameless, &claims(), es), NOW).is_ok());
}

#[test]
fn ed25519_in_pem_and_in_sets() {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let public = pair.public_key().as_ref();
    // RFC 8410, section 4.
    let info = [&[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00], public]
        .concat();
    let base64 = base64::engine::general_purpose::STANDARD.encode(info);
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{base64}\n-----END PUBLIC KEY-----\n");
    let of_pem = Key::from_pem(pem.as_bytes(), &[]).unwrap();
    let set = json!({ "keys": [
        { "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(public), "alg": "EdDSA" },
        { "kty": "OKP", "crv": "Ed448", "x": "AAAA" },
        { "kty": "quantum" },
        7,
    ]});
    let of_set = parse_key_set(&set.to_string(), &[], false).unwrap().remove(0);
    for key in [of_pem, of_set] {
        let issuers = issuers_with(options(), vec![key]);
        let header = json!({ "alg": "EdDSA" });
        let token = by_hand(&header, &claims(), |message| pair.sign(message).as_ref().to_vec());
        assert!(issuers.verify(&token, NOW).is_ok());
        assert!(issuers.verify(&hs(&claims()), NOW).is_err());
    }
    let choice = [Algorithm::Rs256];
    assert_eq!(Key::from_pem(pem.as_bytes(), &choice).unwrap_err(), KeyError::Algorithm);
}

#[test]
fn keys_that_are_none_are_refused() {
    assert_eq!(Key::secret(&[7; 31], &[]).unwrap_err(), KeyError::Short);
    assert_eq!(Key::secret(SECRET, &[Algorithm::Es256]).unwrap_err(), KeyError::Algorithm);
    assert_eq!(Key::from_pem(b"nonsense", &[]).unwrap_err(), KeyError::Form);
    let pem = b"-----BEGIN PUBLIC KEY-----\nMAAA\n-----END PUBLIC KEY-----\n";
    assert_eq!(Key::from_pem(pem, &[]).unwrap_err(), KeyError::Form);
    let secret = json!({ "keys": [{ "kty": "oct", "k": URL_SAFE_NO_PAD.encode(SECRET) }] });
    let text = secret.to_string();
    assert!(parse_key_set(&text, &[], false).is_err(), "a secret that anybody can fetch");
    assert_eq!(parse_key_set(&text, &[], true).unwrap().len(), 1);
    let short = json!({ "keys": [{ "kty": "RSA", "n": URL_SAFE_NO_PAD.encode([0xff; 128]), "e": "AQAB" }] });
    assert!(parse_key_set(&short.to_string(), &[], true).is_err(), "1024 bits");
    let encrypts =
        json!({ "keys": [{ "kty": "oct", "k": URL_SAFE_NO_PAD.encode(SECRET), "use": "enc" }] });
    assert!(parse_key_set(&encrypts.to_string(), &[], true).is_err());
    let many = json!({ "keys": vec![secret["keys"][0].clone(); 65] });
    assert!(parse_key_set(&many.to_string(), &[], true).is_err());
    for text in ["", "[]", "{}", r#"{"keys":{}}"#] {
        assert!(parse_key_set(text, &[], true).is_err(), "{text}");
    }
    assert!(!format!("{:?}", Key::secret(SECRET, &[]).unwrap()).contains("secret of"));
}

#[test]
fn huge_tokens_are_refused_unread() {
    let long = hs(&with("other", json!("x".repeat(TOKEN_BYTES_MAX))));
    assert_eq!(problem(&issuers(), &long), TokenProblem::Form("it is too long"));
    let deep = "[".repeat(3_000) + &"]".repeat(3_000);
    let header = URL_SAFE_NO_PAD.encode(deep);
    assert!(issuers().verify(&format!("{header}.{header}.AAAA"), NOW).is_err());
}

proptest! {
    #[test]
    fn a_token_that_was_changed_is_never_accepted(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let token = hs(&claims());
        let mut bytes = token.clone().into_bytes();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at); } else { bytes[at] = byte; }
        if let Ok(changed) = String::from_utf8(bytes) {
            prop_assert_eq!(issuers().verify(&changed, NOW).is_ok(), changed == token);
        }
    }

    #[test]
    fn what_is_no_token_is_refused_without_a_panic(text in ".{0,200}", a in "[A-Za-z0-9_-]{0,80}", b in "[A-Za-z0-9_-]{0,80}") {
        prop_assert!(issuers().verify(&text, NOW).is_err());
        let token = format!("{a}.{b}.{a}");
        prop_assert!(issuers().verify(&token, NOW).is_err());
    }

    #[test]
    fn keys_in_pem_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{base64}\n-----END PUBLIC KEY-----\n");
        prop_assert!(Key::from_pem(pem.as_bytes(), &[]).is_err());
    }
}

type Reply = (usize, Result<Principal, LoginError>);

fn request(token: &str, address: [u8; 4], number: usize, replies: &Sender<Reply>) -> LoginRequest {
    let replies = replies.clone();
    let credentials = Credentials { token: Some(token.to_owned()), ..Credentials::default() };
    let answer = Box::new(move |result| replies.send((number, result)).unwrap());
    LoginRequest::new(credentials, IpAddr::from(address), answer)
}

fn worker(issuers: Issuers) -> AuthWorker {
    let verifier = Verifier::new([], [], AnonymousAccess::Refused).unwrap().with_signed_tokens();
    let worker = AuthWorker::start(Arc::new(verifier), FailurePolicy::default(), 16).unwrap();
    worker.with_issuers(Arc::new(issuers)).unwrap()
}

fn fresh() -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    with("exp", json!(now + 600))
}

#[test]
fn a_flood_of_bad_tokens_leaves_places_for_honest_ones() {
    let worker = worker(issuers());
    let handle = worker.handle();
    let (replies, results): (Sender<Reply>, Receiver<Reply>) = channel();
    // The thread is held, so that the queue fills whatever the machine is like.
    let (release, gate) = channel::<()>();
    let (entered, is_inside) = channel();
    let mut held = request(&hs(&fresh()), [10, 0, 0, 1], 0, &replies);
    held.answer = Box::new(move |_| {
        entered.send(()).unwrap();
        gate.recv().unwrap();
    });
    handle.submit(held).unwrap();
    is_inside.recv().unwrap();
    let mut refused = 0;
    for number in 0..5_000 {
        let bad = sign(&with("jti", json!(number)), &[7; 32], Algorithm::Hs256).unwrap();
        refused +=
            usize::from(handle.submit(request(&bad, [192, 0, 2, 1], 9_999, &replies)).is_err());
    }
    assert!(refused >= 4_000, "{refused}");
    for number in 0..100 {
        let good = hs(&with("jti", json!(number)));
        let good = sign(
            &{
                let mut claims = fresh();
                claims["jti"] = json!(number);
                claims
            },
            SECRET,
            Algorithm::Hs256,
        )
        .unwrap_or(good);
        handle.submit(request(&good, [10, 0, 1, number], usize::from(number), &replies)).unwrap();
    }
    release.send(()).unwrap();
    drop(replies);
    let accepted: HashSet<usize> =
        results.iter().filter_map(|(number, result)| result.is_ok().then_some(number)).collect();
    assert_eq!(accepted, (0..100).collect(), "all honest clients and nobody else");
}

#[test]
fn a_token_beside_a_name_must_be_that_names() {
    let worker = worker(issuers());
    let (replies, results) = channel();
    let token = hs(&fresh());
    for (number, login) in ["ann", "bob"].into_iter().enumerate() {
        let mut request = request(&token, [10, 0, 0, 1], number, &replies);
        request.credentials = Credentials {
            login: Some(login.to_owned()),
            passcode: Some(token.clone()),
            ..Credentials::default()
        };
        worker.handle().submit(request).unwrap();
    }
    drop(replies);
    let found: Vec<_> =
        results.iter().take(2).map(|(_, result)| result.map(|who| who.to_string())).collect();
    assert_eq!(found, [Ok("ann".to_owned()), Err(LoginError::Refused)]);
}

#[test]
fn a_token_waits_for_a_key_that_is_fetched_and_no_flood_fetches_twice() {
    let set = |kid: &str| {
        let key = json!({ "kty": "oct", "k": URL_SAFE_NO_PAD.encode(SECRET), "alg": "HS256", "kid": kid });
        parse_key_set(&json!({ "keys": [key] }).to_string(), &[], true)
    };
    let store = KeyStore::new(Vec::new());
    let worker = worker(Issuers::new(vec![Issuer::new(options(), store.clone())]));
    let handle = worker.handle();
    let fetches = Arc::new(AtomicUsize::new(0));
    let (answer, answers) = channel::<Result<Vec<Key>, String>>();
    let answers = Mutex::new(answers);
    let source = {
        let fetches = fetches.clone();
        move || {
            fetches.fetch_add(1, Ordering::SeqCst);
            answers.lock().unwrap().recv().unwrap_or_else(|_| Err("away".to_owned()))
        }
    };
    let fetched = handle.clone();
    let fetcher = KeyFetcher::start(
        store,
        Box::new(source),
        Box::new(move |_| fetched.keys_fetched()),
        Duration::from_secs(3_600),
    )
    .unwrap();
    let (replies, results) = channel();
    let by = |kid: &str| {
        by_hand(&json!({ "alg": "HS256", "kid": kid }), &fresh(), |message| {
            ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET), message)
                .as_ref()
                .to_vec()
        })
    };
    // The first keys are on the way: it waits for them.
    handle.submit(request(&by("k1"), [10, 0, 0, 1], 1, &replies)).unwrap();
    answer.send(set("k1")).unwrap();
    let (number, result) = results.recv().unwrap();
    assert_eq!((number, result.map(|who| who.to_string())), (1, Ok("ann".to_owned())));
    // They were fetched just now: names that are invented fetch nothing.
    for number in 0..200 {
        handle.submit(request(&by(&format!("x{number}")), [10, 0, 0, 2], 2, &replies)).unwrap();
        assert_eq!(results.recv().unwrap(), (2, Err(LoginError::Refused)));
    }
    assert_eq!(fetches.load(Ordering::SeqCst), 1);
    drop(answer);
    drop(fetcher);
}
