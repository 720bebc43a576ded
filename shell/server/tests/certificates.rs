//! Certificates that say who their clients are, over real sockets.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};

use crate::program::logins::{PROTOCOLS, Show, Way, log_in};
use crate::program::{Directory, Server};

/// An authority, and a directory for files.
pub(crate) struct Authority {
    directory: Directory,
    issuer: Issuer<'static, KeyPair>,
    pub(crate) file: String,
}

fn write(directory: &Directory, name: &str, text: &str) -> String {
    let path = directory.0.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let directory = Directory::new(name);
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let file = write(&directory, "authority.pem", &certificate.pem());
        Authority { directory, issuer: Issuer::new(params, key), file }
    }

    fn sign(&self, name: &str, params: CertificateParams) -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        [
            write(&self.directory, &format!("{name}.pem"), &certificate.pem()),
            write(&self.directory, &format!("{name}.key"), &key.serialize_pem()),
        ]
    }

    pub(crate) fn client(&self, name: &str, names: Vec<SanType>, end: Option<u64>) -> [String; 2] {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Some(end) = end {
            params.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(end);
        }
        self.sign(name, params)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory.0
    }

    pub(crate) fn serve(&self, more: &str) -> Server {
        self.serve_only("optional", more)
    }

    /// A server whose clients show certificates like that.
    pub(crate) fn serve_only(&self, shown: &str, more: &str) -> Server {
        let [chain, key] =
            self.sign("server", CertificateParams::new(vec!["localhost".to_owned()]).unwrap());
        let password = write(&self.directory, "password", "swordfish");
        let config = format!(
            "[auth]\nlogin_failures_max = 0\n[tls]\ncertificate = {chain:?}\nkey = {key:?}\nclient_authorities = {:?}\n\
             client_certificates = {shown:?}\n{more}\n\
             [[user]]\nname = \"bob\"\npassword = \"file:{password}\"\ngroups = [\"machines\"]\n\
             [[rule]]\nallow = [\"subscribe\"]\nprincipals = [\"group:machines\"]\npaths = [\"own/{{user}}/**\"]\n",
            self.file
        );
        Server::start(&self.directory.0, &config)
    }
}

#[test]
fn every_protocol_takes_a_certificate_for_who_its_client_is() {
    let authority = Authority::new("certificate-names");
    let server = authority
        .serve("client_names = [\"email\", \"common_name\"]\nclient_groups = [\"machines\"]");
    let by_name = authority.client("ann", Vec::new(), None);
    let mail = SanType::Rfc822Name("ann".try_into().unwrap());
    let by_mail = authority.client("somebody", vec![mail], None);
    for shown in [&by_name, &by_mail] {
        let way = Way::secured(server.address, &authority.file, Some(shown));
        for protocol in PROTOCOLS {
            assert_eq!(log_in(protocol, &way, Show::Nothing), Ok(()), "{protocol}");
            // Credentials that are shown besides count, right or wrong.
            let refused = log_in(protocol, &way, Show::Password("bob", "wrong"));
            assert!(refused.is_err(), "{protocol}");
        }
        let refused = log_in("http", &way, Show::Password("bob", "swordfish")).unwrap_err();
        assert!(refused.contains("403"), "bob is not ann: {refused}");
    }
    let other = authority.client("eve", Vec::new(), None);
    let way = Way::secured(server.address, &authority.file, Some(&other));
    let refused = log_in("http", &way, Show::Nothing).unwrap_err();
    assert!(refused.contains("403"), "eve is not ann: {refused}");
    // Without a certificate, and with one that names nobody, there is nobody.
    let nobody = authority.client("no name, it has spaces", Vec::new(), None);
    for shown in [None, Some(&nobody)] {
        let way = Way::secured(server.address, &authority.file, shown);
        for protocol in PROTOCOLS {
            assert!(log_in(protocol, &way, Show::Nothing).is_err(), "{protocol}");
        }
        let refused = log_in("stomp", &way, Show::Nothing).unwrap_err();
        assert!(refused.contains("login-required"), "{refused}");
    }
}

#[test]
fn certificates_log_nobody_in_unless_they_are_told_to() {
    let authority = Authority::new("certificate-silent");
    let server = authority.serve("");
    let ann = authority.client("ann", Vec::new(), None);
    let way = Way::secured(server.address, &authority.file, Some(&ann));
    let refused = log_in("stomp", &way, Show::Nothing).unwrap_err();
    assert!(refused.contains("login-required"), "{refused}");
    assert_eq!(log_in("stomp", &way, Show::Password("bob", "swordfish")), Ok(()));
}
