//! TLS to a provider: built-in roots first, the machine's own only when those do not know an issuer.
//!
//! Reading the machine's certificates costs two milliseconds, and a container may have none; the built-in ones cost nothing
//! and suffice for every public provider. A proxy that inspects traffic has an issuer of its own, which `SSL_CERT_FILE` names
//! or the machine knows.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::rt;

/// Where roots come from beside the built-in ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsRoots {
    /// A PEM bundle, readable when it was checked.
    pub cert_file: Option<PathBuf>,
    /// Directories of PEM files, present when they were checked.
    pub cert_dirs: Vec<PathBuf>,
}

/// How many roots are built in.
pub fn builtin_roots() -> usize {
    webpki_roots::TLS_SERVER_ROOTS.len()
}

/// The client's side of TLS, made at the first connection.
pub(super) struct Tls {
    roots: TlsRoots,
    config: Option<Arc<ClientConfig>>,
    with_system_store: bool,
}

/// Why there is no TLS connection.
#[derive(Debug)]
pub(super) enum TlsError {
    /// The issuer of the server's certificate is unknown.
    UnknownIssuer,
    /// The certificate is not acceptable for another reason.
    Certificate(String),
    /// A root that was named cannot be read.
    Roots(String),
    /// The connection broke.
    Io(io::Error),
}

impl Tls {
    pub(super) fn new(roots: TlsRoots) -> Tls {
        Tls { roots, config: None, with_system_store: false }
    }

    /// Adds the machine's store for the connections to come. False when that was done already.
    pub(super) fn add_system_store(&mut self) -> bool {
        if self.with_system_store {
            return false;
        }
        self.with_system_store = true;
        self.config = None;
        true
    }

    /// Does the handshake.
    pub(super) async fn connect(&mut self, host: &str, stream: rt::Stream) -> Result<TlsStream<rt::Stream>, TlsError> {
        let config = match &self.config {
            Some(config) => config.clone(),
            None => self.config.insert(Arc::new(build(&self.roots, self.with_system_store).await?)).clone(),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|e| TlsError::Certificate(e.to_string()))?;
        TlsConnector::from(config).connect(name, stream).await.map_err(classify)
    }
}

fn classify(error: io::Error) -> TlsError {
    match error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => TlsError::UnknownIssuer,
        Some(rustls::Error::InvalidCertificate(reason)) => TlsError::Certificate(reason.to_string()),
        _ => TlsError::Io(error),
    }
}

async fn build(roots: &TlsRoots, with_system_store: bool) -> Result<ClientConfig, TlsError> {
    let mut store = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let named = roots.clone();
    if named != TlsRoots::default() || with_system_store {
        let found = rt::blocking(move || read_roots(&named, with_system_store)).await;
        let found = found.map_err(|panicked| TlsError::Roots(panicked.to_string()))?.map_err(TlsError::Roots)?;
        store.add_parsable_certificates(found);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.map_err(|e| TlsError::Roots(e.to_string()))?.with_root_certificates(store).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn read_roots(roots: &TlsRoots, with_system_store: bool) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut found = Vec::new();
    if let Some(file) = &roots.cert_file {
        let named = read_pem(file).map_err(|e| format!("SSL_CERT_FILE {}: {e}", file.display()))?;
        if named.is_empty() {
            return Err(format!("SSL_CERT_FILE {} holds no certificate in PEM form", file.display()));
        }
        found.extend(named);
    }
    for dir in &roots.cert_dirs {
        let entries = std::fs::read_dir(dir).map_err(|e| format!("SSL_CERT_DIR {}: {e}", dir.display()))?;
        // A directory of certificates may hold anything else too.
        found.extend(entries.flatten().filter_map(|entry| read_pem(&entry.path()).ok()).flatten());
    }
    if with_system_store {
        // What cannot be read there is not ours to judge: an unknown issuer is reported all the same.
        found.extend(rustls_native_certs::load_native_certs().certs);
    }
    Ok(found)
}

fn read_pem(file: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_file_iter(file)?.collect()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use gantry_bench::upstream::{Answer, Certificate, Script, Upstream};

    use super::*;
    use crate::provider::raw::Raw;
    use crate::rt::{DriverChoice, block_on};

    /// A folder with the certificate as `ca.pem`.
    struct Folder(PathBuf);

    impl Folder {
        fn new(certificate: &Certificate) -> Folder {
            static FOLDERS: AtomicUsize = AtomicUsize::new(0);
            let name = format!("gantry-tls-{}-{}", std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
            let folder = Folder(std::env::temp_dir().join(name));
            std::fs::create_dir(&folder.0).unwrap();
            certificate.write_pem(folder.0.join("ca.pem"));
            std::fs::write(folder.0.join("README"), "no certificate").unwrap();
            folder
        }

        fn file(&self, name: &str) -> TlsRoots {
            TlsRoots { cert_file: Some(self.0.join(name)), ..TlsRoots::default() }
        }

        fn itself(&self) -> TlsRoots {
            TlsRoots { cert_dirs: vec![self.0.clone()], ..TlsRoots::default() }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// One handshake on each driver.
    fn handshake(roots: &TlsRoots, host: &str, addr: SocketAddr) -> Result<(), TlsError> {
        let on = |choice| {
            block_on(choice, async |_| {
                let stream = rt::connect(&[addr], Duration::from_secs(10)).await.unwrap();
                let secured = Tls::new(roots.clone()).connect(host, stream).await?;
                assert_ne!(secured.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                Ok(())
            })
            .unwrap()
        };
        on(DriverChoice::Auto).and(on(DriverChoice::Epoll))
    }

    fn upstream() -> (Folder, Upstream) {
        let certificate = Arc::new(Certificate::new());
        let folder = Folder::new(&certificate);
        (folder, Upstream::start(Script::answers(vec![Answer::json(200, "{}")]).tls(certificate)))
    }

    #[test]
    fn a_named_root_is_trusted_for_the_names_it_states() {
        let (folder, upstream) = upstream();
        for roots in [folder.file("ca.pem"), folder.itself()] {
            for host in ["localhost", "127.0.0.1"] {
                handshake(&roots, host, upstream.addr()).unwrap();
            }
            let other = handshake(&roots, "other.example", upstream.addr());
            assert!(matches!(other, Err(TlsError::Certificate(_))), "{other:?}");
        }
    }

    #[test]
    fn an_issuer_that_nobody_named_is_unknown_and_the_machine_is_asked_once() {
        let (_folder, upstream) = upstream();
        let unknown = handshake(&TlsRoots::default(), "localhost", upstream.addr());
        assert!(matches!(unknown, Err(TlsError::UnknownIssuer)), "{unknown:?}");
        let mut tls = Tls::new(TlsRoots::default());
        assert!(tls.add_system_store() && !tls.add_system_store());
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let (folder, upstream) = upstream();
        for name in ["README", "missing"] {
            match handshake(&folder.file(name), "localhost", upstream.addr()) {
                Err(TlsError::Roots(why)) => assert!(why.contains(name) && why.contains("SSL_CERT_FILE"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_server_without_tls_is_no_matter_of_certificates() {
        let server = Raw::start(|_, stream| drop(std::io::Write::write_all(&mut &stream, b"HTTP/1.1 400 Bad\r\n\r\n")));
        let error = handshake(&TlsRoots::default(), "localhost", server.addr);
        assert!(matches!(error, Err(TlsError::Io(_))), "{error:?}");
    }
}
