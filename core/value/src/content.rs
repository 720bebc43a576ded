//! Content types: whether what is said of a body contradicts that it is text.
//!
//! Relies on nothing. Invariant: a type that is not known, or says no more than that there are bytes,
//! contradicts nothing; then the body alone decides.

/// Whether bodies of that MIME type are never text: pictures, sound, archives and binary encodings such
/// as CBOR and Protocol Buffers. Their first bytes may look like JSON by chance.
pub fn is_binary_content(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let Some((family, name)) = essence.split_once('/') else { return false };
    let is = |known: &&str| name.eq_ignore_ascii_case(known);
    let (stem, suffix) = name.rsplit_once('+').unwrap_or((name, ""));
    if TEXT_SUFFIXES.iter().any(|known| suffix.eq_ignore_ascii_case(known)) {
        return false;
    }
    if BINARY_FAMILIES.iter().any(|known| family.eq_ignore_ascii_case(known)) {
        return true;
    }
    let ends = |known: &&str| !stem.is_empty() && suffix.eq_ignore_ascii_case(known);
    family.eq_ignore_ascii_case("application")
        && (BINARY.iter().any(is) || BINARY_SUFFIXES.iter().any(ends))
}

const BINARY_FAMILIES: [&str; 4] = ["audio", "font", "image", "video"];
const TEXT_SUFFIXES: [&str; 2] = ["json", "xml"];
const BINARY_SUFFIXES: [&str; 6] = ["avro", "cbor", "gzip", "msgpack", "protobuf", "zip"];
/// Those of the registry that RSocket's well-known types are from, and the common names of the rest.
const BINARY: [&str; 19] = [
    "avro",
    "cbor",
    "cbor-seq",
    "gzip",
    "msgpack",
    "pdf",
    "protobuf",
    "vnd.apache.thrift.binary",
    "vnd.apache.thrift.compact",
    "vnd.google.protobuf",
    "vnd.msgpack",
    "x-capnp",
    "x-flatbuffers",
    "x-gzip",
    "x-hessian",
    "x-java-object",
    "x-msgpack",
    "x-protobuf",
    "zip",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_types_are_told_from_all_others() {
        for binary in [
            "application/cbor",
            "APPLICATION/CBOR; a=b",
            "application/senml+cbor",
            "application/vnd.google.protobuf",
            "image/png",
            "video/H264",
        ] {
            assert!(is_binary_content(binary), "{binary}");
        }
        for other in [
            "",
            "json",
            "application/json",
            "application/octet-stream",
            "application/x-www-form-urlencoded",
            "application/cloudevents+json",
            "application/+cbor",
            "application/x-mine",
            "image/svg+xml",
            "text/plain;charset=utf-8",
            "cbor/cbor",
        ] {
            assert!(!is_binary_content(other), "{other}");
        }
    }
}
