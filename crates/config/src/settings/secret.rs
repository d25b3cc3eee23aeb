//! Secret: parses and masks passwords and tokens.
//!
//! Wherever settings are shown, [`SECRET`] replaces a secret. It is not accepted as a secret, so
//! that the output of `--print-config` does not start a server with it. Tests: table.rs.

/// Parses a token, which has to be valid in a header field.
///
/// Source: RFC 6750, section 2.1.
pub(super) fn token(text: &str) -> Result<String, String> {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    match text {
        "off" => Ok(String::new()),
        "" => Err("the token is empty; write off for none".to_owned()),
        SECRET => Err(format!(
            "{SECRET} stands for a token that --print-config does not show; write the token"
        )),
        _ if text.bytes().all(is_of_token) => Ok(text.to_owned()),
        _ => Err("a token has only letters, digits and - . _ ~ + / =".to_owned()),
    }
}

/// The text that replaces a secret where settings are shown.
const SECRET: &str = "(set)";

/// The masked form of a secret.
pub(super) fn show_secret(secret: &str) -> String {
    if secret.is_empty() { "off" } else { SECRET }.to_owned()
}

/// A password, or `off` for none; the masked form is an error.
pub(super) fn password(text: &str) -> Result<String, String> {
    match text {
        "off" => Ok(String::new()),
        "" => Err("the password is empty; write off for none".to_owned()),
        SECRET => Err(format!(
            "{SECRET} stands for a password that --print-config does not show; write the password"
        )),
        _ => Ok(text.to_owned()),
    }
}
