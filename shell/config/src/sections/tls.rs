//! TLS: who the server is, who may come, and where plain text is spoken.

use std::time::Duration;

use crate::kind::Kind;
use crate::spec::DefaultValue::{Absent, Is, Required};
use crate::spec::{choice, section};

section! {
    /// TLS, on the same ports as plain text: a connection's first byte tells which it is.
    "tls" TABLE TlsConfig {
        /// File with the server's certificate and those that lead from it to an authority, in PEM, the server's own first. Neither this nor `[[certificate]]` nor `tls.self_signed`: TLS is not spoken.
        "certificate" certificate: Option<String> = Absent, Kind::Text, flag("tls-certificate");
        /// File with the certificate's private key, in PEM, not encrypted and not readable by everybody.
        "key" key: Option<String> = Absent, Kind::Text, flag("tls-key");
        /// Make a certificate for `localhost` at every start, for trying things out; only where all listeners are this machine's own.
        "self_signed" self_signed: bool = Is("false"), Kind::Boolean, flag("tls-self-signed");
        /// Refuse plain text on every listener that does not say otherwise by its own `tls`.
        "only" only: bool = Is("false"), Kind::Boolean, flag("tls-only");
        /// The lowest version that is spoken.
        "version_min" version_min: TlsVersion = Is("1.2"), Kind::Choice(TlsVersion::WORDS);
        /// File with the authorities, in PEM, whose certificates clients may show. Not set: clients are not asked.
        "client_authorities" client_authorities: Option<String> = Absent, Kind::Text;
        /// Whether clients may come without a certificate, if there are `tls.client_authorities`.
        "client_certificates" client_certificates: ClientCertificateUse = Is("required"), Kind::Choice(ClientCertificateUse::WORDS);
        /// What of a client's certificate is its name, for rules; the first of these that the certificate has, and that can be a name, counts. Empty: certificates let clients connect, and do not log them in. Credentials that a client sends besides count instead.
        "client_names" client_names: Vec<ClientName> = Is(""), Kind::List(&Kind::Choice(ClientName::WORDS));
        /// Groups of those whom a certificate logs in, for rules.
        "client_groups" client_groups: Vec<String> = Is(""), Kind::List(&Kind::Name);
        /// The [virtual host](virtual-hosts.md) that they are bound to, as of a user.
        "client_host" client_host: Option<String> = Absent, Kind::Text;
        /// How often the files are looked at; changed ones hold for connections that come from then on. SIGHUP has them read at once.
        "reload_interval" reload_interval: Duration = Is("60s"), Kind::Duration { min: Duration::from_secs(1), max: Duration::from_secs(86_400) }, zero("only on SIGHUP");
        /// Time from the first byte of a handshake to its end.
        "handshake_timeout" handshake_timeout: Duration = Is("10s"), Kind::Duration { min: Duration::from_millis(100), max: Duration::from_secs(600) };
        /// Handshakes that one IP address may have under way.
        "handshakes_per_ip_max" handshakes_per_ip_max: usize = Is("256"), Kind::Integer { min: 1, max: 100_000_000 }, zero("no limit");
    }
}

section! {
    /// A further certificate. A client that names a host gets the first that is for that host, those of `[tls]` before these; a client that names none gets the first of all.
    "certificate" LIST CertificateConfig {
        /// File with the certificate and those that lead from it to an authority, in PEM.
        "chain" chain: String = Required, Kind::Text;
        /// File with its private key, in PEM.
        "key" key: String = Required, Kind::Text;
    }
}

choice! {
    /// A version of TLS.
    TlsVersion {
        /// TLS 1.2, with forward secrecy and authenticated ciphers only, and 1.3.
        Tls12 = "1.2",
        /// TLS 1.3 alone.
        Tls13 = "1.3",
    }
}

choice! {
    /// Whether clients may come without a certificate.
    ClientCertificateUse {
        /// They may; one that is shown must be signed by an authority.
        Optional = "optional",
        /// They may not.
        Required = "required",
    }
}

choice! {
    /// What of a client's certificate is its name.
    ClientName {
        /// The last common name of its subject.
        CommonName = "common_name",
        /// The first name of a host among its alternative names.
        Dns = "dns",
        /// The first address of mail among its alternative names.
        Email = "email",
        /// The first URI among its alternative names, such as `spiffe://example.org/feed`.
        Uri = "uri",
    }
}

choice! {
    /// Whether a listener's connections are secured.
    ListenerTls {
        /// As the client likes.
        Either = "either",
        /// Always: plain text is refused.
        Only = "only",
        /// Never: TLS is refused.
        Off = "off",
    }
}

impl TlsConfig {
    /// Whether TLS is spoken anywhere; `certificates` are the further ones.
    pub fn is_on(&self, certificates: &[CertificateConfig]) -> bool {
        self.self_signed || self.certificate.is_some() || !certificates.is_empty()
    }
}
