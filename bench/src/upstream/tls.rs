//! Certificates made at start, so that no key lies in the repository.

use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A certificate for `localhost` and `127.0.0.1`, and the authority that issued it, which nobody trusts unless told.
pub struct Certificate {
    config: Arc<ServerConfig>,
    authority: String,
}

impl Certificate {
    /// Makes both.
    ///
    /// # Panics
    /// When the cryptography fails, which it does not.
    pub fn new() -> Certificate {
        Certificate::made().expect("certificates for localhost")
    }

    fn made() -> Result<Certificate, Box<dyn std::error::Error>> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "scripted upstream");
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);

        let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        params.use_authority_key_identifier_extension = true;
        params.distinguished_name.push(DnType::CommonName, "localhost");
        let key = KeyPair::generate()?;
        let leaf = params.signed_by(&key, &issuer)?;

        let chain = vec![CertificateDer::from(leaf.der().to_vec())];
        let secret = PrivateKeyDer::try_from(key.serialize_der())?;
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, secret)?;
        Ok(Certificate { config: Arc::new(config), authority })
    }

    /// The authority's certificate as PEM.
    pub fn pem(&self) -> &str {
        &self.authority
    }

    /// Writes the authority's certificate where `SSL_CERT_FILE` can name it.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write_pem(&self, path: PathBuf) -> PathBuf {
        std::fs::write(&path, &self.authority).expect("the file can be written");
        path
    }

    pub(super) fn accept<'a>(&self, stream: &'a TcpStream) -> io::Result<StreamOwned<ServerConnection, &'a TcpStream>> {
        let connection = ServerConnection::new(self.config.clone()).map_err(io::Error::other)?;
        Ok(StreamOwned::new(connection, stream))
    }
}

impl Default for Certificate {
    fn default() -> Certificate {
        Certificate::new()
    }
}
