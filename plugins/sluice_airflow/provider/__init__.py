"""Log-ins by an identity provider (OpenID Connect) or a directory (LDAP), as the settings `login` say."""
