//! A certificate made at start, so that no key lies in the repository.

use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A certificate for `localhost` and `127.0.0.1`, which is its own authority.
pub struct Certificate {
    config: Arc<ServerConfig>,
    pem: String,
}

impl Certificate {
    /// Makes one.
    ///
    /// # Panics
    /// When the cryptography fails, which it does not.
    pub fn new() -> Certificate {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate for localhost");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("rcgen writes a key that rustls reads");
        let chain = vec![CertificateDer::from(made.cert.der().to_vec())];
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .expect("the certificate fits its key");
        Certificate { config: Arc::new(config), pem: made.cert.pem() }
    }

    /// Writes the certificate where `SSL_CERT_FILE` can name it.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write_pem(&self, path: PathBuf) -> PathBuf {
        std::fs::write(&path, &self.pem).expect("the file can be written");
        path
    }

    pub(super) fn accept(&self, stream: TcpStream) -> io::Result<StreamOwned<ServerConnection, TcpStream>> {
        let connection = ServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, stream))
    }
}

impl Default for Certificate {
    fn default() -> Certificate {
        Certificate::new()
    }
}
