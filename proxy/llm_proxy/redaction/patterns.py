"""The shapes of secrets: a table of patterns, which a search tries in this order.

Keys change their length over the years, so a pattern with a distinctive prefix takes the whole run
of characters that follows.  A pattern with a weak prefix knows the length of its keys.

Every regex takes linear time: each lookahead is bounded, because a keyword can occur many times in
one run of characters.  No match crosses a quote, a brace or, except in a PEM block, a newline.

These have no recognisable shape: keys of Mistral, Cohere, AssemblyAI, Deepgram, Exa and Portkey,
the older keys of Together and Azure OpenAI, and the organisation ids of Anthropic, which are UUIDs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LONGEST_AFTER_KEYWORD: Final = 256
"""The most bytes that a pattern with a `lookback` looks at from the start of its keyword on."""


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """The shape of one kind of secret."""

    name: str
    """Names the placeholder, `[redacted:NAME]`."""

    keywords: tuple[str, ...]
    """Every match begins with one of these, or contains one if there is a `lookback`."""

    regex: str
    """For bytes, tried at a keyword.  If it has a group, only group 1 is the secret."""

    covers: str
    """What it covers, for the documentation."""

    is_optional: bool = False
    """Off unless asked for."""

    lookback: int = 0
    """The most bytes before the keyword at which a match begins.  The regex is searched from there;
    no match ends more than `LONGEST_AFTER_KEYWORD` bytes after the start of the keyword, so the
    search ends there too.  Such a keyword may follow a letter or a digit."""

    continuation: str = ""
    """For RE2: what at least follows a keyword that is frequent in ordinary text."""


_VARIED: Final = r"(?=[a-z_-]{0,64}[A-Z0-9])(?=[A-Z_-]{0,64}[a-z0-9])"
"""Excludes placeholders: `your-api-key-here`, `YOUR_API_KEY`, `xxxxxxxx`."""

_START: Final = r"(?<![_-])"
"""Before a short prefix: in URL-safe base64 it also occurs by chance."""

_ALPHANUMERIC: Final = r"(?=[A-Za-z]{0,64}[0-9])(?=[0-9]{0,64}[A-Za-z])"
"""Letters and digits."""

_MIXED: Final = r"(?=[A-Za-z_-]{0,64}[0-9])(?=[a-z0-9_-]{0,64}[A-Z])(?=[A-Z0-9_-]{0,64}[a-z])"
"""Capitals, small letters and digits."""

_HEX_32: Final = r"(?=[a-f]{0,31}[0-9])(?=[0-9]{0,31}[a-f])[0-9a-f]{32}"

_USER_INFO: Final = (
    r"([\w.~%!$&*+,;=-]{0,128}:"
    r"(?!(?i:(?:your|my)?[_-]?(?:password|passwd|passwort|pass|pwd|pw|secret|token|key)|changeme"
    r"|redacted|x+|\*+|\.+|\$[A-Z_]+|%24%7B[^@\s]{0,64})@)"
    r"[\w.~%!$&*+,;=:-]{1,256})@"
)
"""User and password in a URL; the password is no placeholder."""

_PEM_TEXT: Final = r"[A-Za-z0-9+/=\\\s:,.()@<>]"
"""Base64, headers, and newlines, which may be escaped once or twice; hyphens are apart."""

_PEM_HEADER: Final = r"[\s\\rn]{0,12}[A-Z][A-Za-z-]{2,12}: [^\x22\\\r\n{}]{1,80}"

_PATH_START: Final = r"(?:(?<![\w.-])|(?<=\\[nrt]))"
"""Before a path: no host and no other directory."""

SECRET_PATTERNS: Final[tuple[SecretPattern, ...]] = (
    # LLM providers and their tools
    SecretPattern(
        "anthropic-key",
        ("sk-ant-",),
        rf"sk-ant-(?:[a-z]{{2,8}}[0-9]{{2}}-|(?![a-z]{{2,8}}[0-9]{{2}}-)){_VARIED}[\w-]{{16,}}",
        "Anthropic API, admin and session keys, and OAuth tokens",
    ),
    SecretPattern(
        "openai-key",
        ("sk-",),
        rf"sk-(?:(?:proj|svcacct|admin|service|None)-{_VARIED}[\w-]{{16,}}"
        r"|(?=[\w-]{16,200}T3BlbkFJ)[\w-]{32,})",
        "OpenAI project, service account, admin and legacy keys",
    ),
    SecretPattern(
        "openrouter-key",
        ("sk-or-",),
        rf"sk-or-(?:v[0-9]-|(?!v[0-9]-)){_VARIED}[\w-]{{16,}}",
        "OpenRouter keys",
    ),
    SecretPattern(
        "helicone-key",
        ("sk-helicone-", "pk-helicone-"),
        rf"[sp]k-helicone-{_VARIED}[\w-]{{16,}}",
        "Helicone keys",
    ),
    SecretPattern(
        "langfuse-key",
        ("sk-lf-", "pk-lf-"),
        rf"[sp]k-lf-{_VARIED}[\w-]{{16,}}",
        "Langfuse secret and public keys",
    ),
    SecretPattern(
        "sk-key",
        ("sk-",),
        rf"{_START}sk-(?!(?:ant|or|proj|svcacct|admin)-)"
        rf"(?:{_ALPHANUMERIC}[A-Za-z0-9]{{32,}}[\w-]*|{_MIXED}[\w-]{{20,}})",
        "keys that start with sk-, such as those of DeepSeek, Moonshot and LiteLLM",
    ),
    SecretPattern(
        "masked-key",
        ("sk-", "key_"),
        r"(?:sk-|key_)[\w-]{0,24}(?:\*{4,}[.]{0,3}[\w-]{2,8}|[.]{3}[A-Za-z0-9]{4})(?![\w-])",
        "partly masked keys in error messages",
    ),
    SecretPattern(
        "google-api-key", ("AIza",), rf"{_START}AIza[\w-]{{24,}}", "Google and Gemini API keys"
    ),
    SecretPattern("gemini-key", ("AQ.Ab",), r"AQ\.Ab[\w-]{32,}", "newer Gemini keys"),
    SecretPattern(
        "google-oauth-token",
        ("ya29.", "1//0"),
        r"(?:ya29\.[\w.-]{19,}[\w-]|(?<![+/])1//0[\w-]{50,})",
        "Google OAuth access and refresh tokens",
    ),
    SecretPattern(
        "google-client-secret", ("GOCSPX-",), r"GOCSPX-[\w-]{16,}", "Google OAuth client secrets"
    ),
    SecretPattern("groq-key", ("gsk_",), rf"{_START}gsk_{_VARIED}[A-Za-z0-9]{{20,}}", "Groq keys"),
    SecretPattern("xai-key", ("xai-",), rf"{_START}xai-{_VARIED}[A-Za-z0-9_]{{30,}}", "xAI keys"),
    SecretPattern(
        "perplexity-key", ("pplx-",), rf"pplx-{_VARIED}[A-Za-z0-9]{{30,}}", "Perplexity keys"
    ),
    SecretPattern("nvidia-key", ("nvapi-",), rf"nvapi-{_VARIED}[\w-]{{16,}}", "NVIDIA keys"),
    SecretPattern(
        "hugging-face-token",
        ("hf_", "api_org_"),
        rf"{_START}(?:hf_|api_org_)(?:{_VARIED}[A-Za-z0-9]{{20,}}|(?:oauth|jwt)_eyJ[\w.-]{{20,}})",
        "Hugging Face user, organisation and OAuth tokens",
    ),
    SecretPattern(
        "replicate-token",
        ("r8_",),
        rf"{_START}r8_{_ALPHANUMERIC}[A-Za-z0-9]{{36,40}}(?![\w-])",
        "Replicate tokens",
    ),
    SecretPattern(
        "fireworks-key",
        ("fw_",),
        rf"{_START}fw_{_ALPHANUMERIC}[A-Za-z0-9]{{20,64}}(?![\w-])",
        "Fireworks keys",
    ),
    SecretPattern(
        "cerebras-key",
        ("csk-",),
        rf"{_START}csk-{_ALPHANUMERIC}[a-z0-9]{{40,64}}(?![\w-])",
        "Cerebras keys",
    ),
    SecretPattern("together-key", ("tgp_v1_",), rf"tgp_v1_{_VARIED}[\w-]{{16,}}", "Together keys"),
    SecretPattern(
        "anyscale-key", ("esecret_",), rf"esecret_{_VARIED}[A-Za-z0-9]{{20,}}", "Anyscale keys"
    ),
    SecretPattern(
        "databricks-token",
        ("dapi",),
        rf"dapi{_HEX_32}(?:-[0-9])?(?![\w-])",
        "Databricks tokens",
    ),
    SecretPattern(
        "voyage-key",
        ("pa-",),
        rf"{_START}pa-{_MIXED}[\w-]{{43}}(?![\w-])",
        "Voyage keys",
    ),
    SecretPattern("jina-key", ("jina_",), rf"jina_{_ALPHANUMERIC}[\w-]{{32,}}", "Jina keys"),
    SecretPattern("tavily-key", ("tvly-",), rf"tvly-{_VARIED}[\w-]{{16,}}", "Tavily keys"),
    SecretPattern(
        "firecrawl-key",
        ("fc-",),
        rf"{_START}fc-{_HEX_32}(?![\w-])",
        "Firecrawl keys",
    ),
    SecretPattern("pinecone-key", ("pcsk_",), rf"pcsk_{_VARIED}[\w-]{{20,}}", "Pinecone keys"),
    SecretPattern(
        "langsmith-key",
        ("lsv2_", "ls__"),
        r"(?:lsv2_[a-z]{2}_|ls__)(?=[a-z_]{0,64}[0-9])[A-Za-z0-9_]{20,}",
        "LangSmith keys",
    ),
    SecretPattern(
        "wandb-key",
        ("wandb_v1_",),
        rf"wandb_v1_{_VARIED}[A-Za-z0-9_]{{20,}}",
        "Weights & Biases keys",
    ),
    SecretPattern(
        "llama-cloud-key",
        ("llx-",),
        rf"{_START}llx-{_ALPHANUMERIC}[A-Za-z0-9]{{32,}}",
        "LlamaCloud keys",
    ),
    SecretPattern(
        "vercel-key",
        ("vck_", "vcp_"),
        rf"{_START}vc[kp]_{_ALPHANUMERIC}[A-Za-z0-9]{{24,}}",
        "Vercel AI Gateway keys and access tokens",
    ),
    SecretPattern(
        "stripe-key",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
        rf"(?:[rs]k_(?:live|test)_{_VARIED}[A-Za-z0-9]{{16,}}|whsec_{_VARIED}[A-Za-z0-9+/]{{20,}}={{0,2}})",
        "Stripe secret and restricted keys, and webhook secrets",
    ),
    SecretPattern(
        "elevenlabs-key",
        ("sk_",),
        rf"{_START}sk_{_HEX_32}[0-9a-f]{{8,32}}(?![\w-])",
        "ElevenLabs keys",
    ),
    # Clouds
    SecretPattern(
        "bedrock-key",
        ("ABSK", "bedrock-api-key-"),
        r"(?:bedrock-api-key-[A-Za-z0-9+/]{20,}={0,2}|(?<![+/])ABSK(?:QmVkcm9ja0FQSUtle[A-Za-z0-9+/]{40,}={0,2}"
        r"|[A-Za-z0-9+/]{100,280}={0,2}(?![A-Za-z0-9+/=])))",
        "Amazon Bedrock long-term and short-term API keys",
    ),
    SecretPattern(
        "aws-access-key-id",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        r"A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])",
        "AWS access key IDs",
    ),
    SecretPattern(
        "aws-secret-key",
        ("secret_access_key", "SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey"),
        r"(?:secret_access_key|SECRET_ACCESS_KEY|[Ss]ecretAccessKey)[ =:>'`\"\\]{1,12}"
        r"([A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
        "AWS secret access keys after secret_access_key or SecretAccessKey",
    ),
    SecretPattern(
        "aws-session-token",
        ("IQoJb3JpZ2lu", "FwoGZXIvYXdz", "FQoGZXIvYXdz"),
        r"(?:IQoJb3JpZ2lu|F[wQ]oGZXIvYXdz)[A-Za-z0-9+/%]{60,}={0,2}",
        "AWS session tokens",
    ),
    SecretPattern(
        "url-signature",
        ("X-Amz-Signature=", "X-Goog-Signature="),
        r"X-(?:Amz|Goog)-Signature=([A-Za-z0-9]{64,})",
        "signatures of AWS and Google Cloud presigned URLs",
    ),
    SecretPattern(
        "azure-access-key",
        ("AccountKey=", "SharedAccessKey="),
        r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,}={0,2})",
        "keys in Azure connection strings",
    ),
    SecretPattern(
        "azure-sas-signature",
        ("sig=",),
        r"sig=([A-Za-z0-9+/%]{43,90}(?:=|(?<=%3D)|(?<=%3d)))",
        "Azure shared access signatures",
    ),
    SecretPattern(
        "azure-client-secret",
        ("7Q~", "8Q~", "9Q~"),
        r"[\w~.-]{3}[789]Q~[\w~.-]{31,34}(?![\w~-])",
        "Microsoft Entra client secrets",
        lookback=3,
    ),
    SecretPattern(
        "azure-resource-key",
        ("QQJ99",),
        r"[A-Za-z0-9]{52}[A-Z]QQJ99[A-Za-z0-9]{20,40}(?![A-Za-z0-9])",
        "newer keys of Azure OpenAI and other Azure AI services",
        lookback=53,
    ),
    SecretPattern(
        "digitalocean-token",
        ("dop_v1_", "doo_v1_", "dor_v1_"),
        r"do[opr]_v1_(?=[a-f]{0,64}[0-9])[A-Za-z0-9]{32,}",
        "DigitalOcean tokens",
    ),
    SecretPattern(
        "vault-token",
        ("hvs.", "hvb.", "hvr."),
        rf"hv[sbr]\.{_VARIED}[\w-]{{24,}}",
        "HashiCorp Vault tokens",
    ),
    SecretPattern(
        "doppler-token",
        ("dp.pt.", "dp.st.", "dp.sa.", "dp.ct.", "dp.scim.", "dp.audit."),
        rf"dp\.(?:pt|st|sa|ct|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?{_VARIED}[A-Za-z0-9]{{32,}}",
        "Doppler tokens",
    ),
    SecretPattern(
        "onepassword-token",
        ("ops_eyJ",),
        r"ops_eyJ[\w+/=-]{40,}",
        "1Password service account tokens",
    ),
    SecretPattern(
        "age-key",
        ("AGE-SECRET-KEY-",),
        r"AGE-SECRET-KEY-(?:PQ-)?1[A-Za-z0-9]{40,}",
        "age secret keys",
    ),
    # Forges and package registries
    SecretPattern(
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        rf"{_START}(?:gh[pousr]|github_pat)_{_VARIED}[\w-]{{16,}}(?:\.eyJ[\w-]+\.[\w-]+)?",
        "GitHub personal, OAuth, app and refresh tokens",
    ),
    SecretPattern(
        "gitlab-token",
        (
            *(f"gl{kind}-" for kind in ("pat", "dt", "ft", "rt", "rtr", "ptt", "cbt", "imt")),
            *(f"gl{kind}-" for kind in ("agent", "oas", "soat", "ffct")),
            "GR1348941",
        ),
        r"(?:GR1348941[\w-]{16,}|gl(?:pat|dt|ft|rtr?|ptt|cbt|imt|agent|oas|soat|ffct)-"
        rf"{_VARIED}[\w.-]{{15,}}\w)",
        "GitLab personal, deploy, runner and other tokens",
    ),
    SecretPattern(
        "atlassian-token",
        ("ATBB", "ATATT3", "ATCTT3"),
        rf"(?:ATBB{_VARIED}[A-Za-z0-9]{{28,40}}(?![\w-])|AT[AC]TT3[\w=-]{{50,}})",
        "Bitbucket app passwords and Atlassian API tokens",
    ),
    SecretPattern(
        "npm-token", ("npm_",), rf"{_START}npm_{_VARIED}[A-Za-z0-9]{{30,}}", "npm tokens"
    ),
    SecretPattern("pypi-token", ("pypi-AgE",), r"pypi-AgE[\w-]{16,}", "PyPI tokens"),
    SecretPattern(
        "docker-token",
        ("dckr_pat_", "dckr_oat_"),
        rf"dckr_[po]at_{_VARIED}[\w-]{{16,}}",
        "Docker Hub tokens",
    ),
    # Chat and other services
    SecretPattern(
        "slack-token",
        (*(f"xox{kind}-" for kind in "abcdeoprs"), "xapp-", "xoxe.xox"),
        rf"(?:xoxe\.)?(?:xox[abcdeoprs]|xapp)-{_VARIED}[A-Za-z0-9%/+-]{{10,}}",
        "Slack tokens",
    ),
    SecretPattern(
        "slack-webhook",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9]{8,}/[A-Za-z0-9/]{16,})",
        "Slack webhook URLs",
    ),
    SecretPattern(
        "discord-token",
        tuple(
            first + second
            for first in ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT")
            for second in "AEIMQUYcgk"
        ),
        r"[MNO][A-Za-z0-9]{22,27}\.[\w-]{6}\.[\w-]{27,45}(?![\w-])",
        "Discord bot tokens",
        continuation=r"[A-Za-z0-9]{20,25}\.[\w-]{6}\.",
    ),
    SecretPattern(
        "discord-webhook",
        ("/api/webhooks/",),
        r"/api/webhooks/([0-9]{17,20}/[\w-]{40,})",
        "Discord webhook URLs",
    ),
    SecretPattern(
        "telegram-token",
        (":AA",),
        r"(?<![0-9])[0-9]{8,10}:AA[\w-]{32,34}(?![\w-])",
        "Telegram bot tokens",
        lookback=10,
    ),
    SecretPattern(
        "twilio-id",
        tuple(prefix + digit for prefix in ("SK", "AC") for digit in "0123456789abcdef"),
        rf"(?:SK|AC){_HEX_32}(?![\w-])",
        "Twilio API key IDs and account IDs",
        continuation=r"[0-9a-f]{31}",
    ),
    SecretPattern("sendgrid-key", ("SG.",), r"SG\.[\w-]{16,32}\.[\w-]{32,}", "SendGrid keys"),
    SecretPattern(
        "shopify-token",
        ("shpat_", "shpca_", "shppa_", "shpss_"),
        r"shp(?:at|ca|pa|ss)_(?=[A-Fa-f]{0,64}[0-9])[A-Za-z0-9]{24,}",
        "Shopify tokens",
    ),
    SecretPattern(
        "grafana-token",
        ("glsa_", "glc_"),
        rf"(?:glsa_{_VARIED}[A-Za-z0-9_]{{32,}}|glc_eyJ[A-Za-z0-9+/]{{32,}}={{0,2}})",
        "Grafana tokens",
    ),
    SecretPattern(
        "sentry-token",
        ("sntrys_", "sntryu_"),
        r"(?:sntrys_eyJ[\w+/=-]{32,}|sntryu_[A-Za-z0-9]{32,})",
        "Sentry organisation and user tokens",
    ),
    SecretPattern(
        "posthog-key",
        ("phc_", "phx_", "phs_"),
        rf"{_START}ph[cxs]_{_ALPHANUMERIC}[A-Za-z0-9]{{32,}}",
        "PostHog project and personal keys",
    ),
    SecretPattern(
        "linear-key",
        ("lin_api_", "lin_oauth_"),
        rf"lin_(?:api|oauth)_{_VARIED}[A-Za-z0-9]{{24,}}",
        "Linear keys",
    ),
    SecretPattern(
        "notion-token",
        ("ntn_", "secret_"),
        rf"(?:{_START}ntn_{_ALPHANUMERIC}[A-Za-z0-9]{{40,}}"
        rf"|{_START}secret_{_ALPHANUMERIC}[A-Za-z0-9]{{43}}(?![\w-]))",
        "Notion tokens",
    ),
    SecretPattern("figma-token", ("figd_",), rf"figd_{_VARIED}[\w-]{{20,}}", "Figma tokens"),
    SecretPattern(
        "airtable-token",
        ("pat",),
        r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}(?![\w-])",
        "Airtable tokens",
        continuation=r"[A-Za-z0-9]{14}\.",
    ),
    SecretPattern(
        "supabase-key",
        ("sbp_", "sb_secret_"),
        rf"(?:sbp_(?=[a-f]{{0,64}}[0-9])[A-Za-z0-9]{{32,}}|sb_secret_{_VARIED}[\w-]{{20,}})",
        "Supabase access tokens and secret keys",
    ),
    # Secrets of no particular service
    SecretPattern(
        "private-key",
        ("-----BEGIN ",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?=[A-Za-z0-9+/=\\\s:,.()@<>-]{0,400}?[A-Za-z0-9+/]{40})"
        rf"(?:(?:{_PEM_TEXT}|-(?!----))*-----END [A-Z0-9 ]{{0,60}}-----"
        rf"|(?:{_PEM_HEADER}){{0,6}}(?:[A-Za-z0-9+/=\r\n]|\\{{1,4}}[rn/])*)",
        "PEM private keys, including those of OpenSSH, PGP and cloud service accounts",
    ),
    SecretPattern(
        "jwt",
        ("eyJ",),
        rf"{_START}eyJ[\w-]{{10,}}\.eyJ[\w-]{{10,}}(?:\.[\w-]*)?",
        "JSON Web Tokens",
        continuation=r"[\w-]{10,}\.",
    ),
    SecretPattern(
        "url-password",
        ("://", ":\\/\\/"),
        rf":(?://|\\/\\/){_USER_INFO}",
        "user names and passwords in URLs",
        continuation=r"[\w.~%!$&*+,;=:-]+@",
    ),
    SecretPattern(
        "bearer-token",
        ("Bearer ", "bearer "),
        r"[Bb]earer ((?=[A-Za-z._~+/=-]{0,128}[0-9])(?=[0-9._~+/=-]{0,128}[A-Za-z])"
        r"[\w.~+/=-]{20,})",
        'tokens after "Bearer"',
    ),
    SecretPattern(
        "basic-credentials",
        ("Basic ", "basic "),
        r"[Bb]asic ((?=[A-Za-z+/]{0,128}[0-9])(?=[0-9+/]{0,128}[A-Za-z])[A-Za-z0-9+/]{20,}={0,2})",
        'base64 user names and passwords after "Basic"',
    ),
    SecretPattern(
        "cloudflare-cookie",
        ("__cf_bm=", "_cfuvid="),
        r"_(?:_cf_bm|cfuvid)=([\w.%+/=-]{20,})",
        "Cloudflare cookies (__cf_bm and _cfuvid)",
    ),
    # Identities
    SecretPattern(
        "openai-organization",
        ("org-",),
        rf"{_START}org-(?:{_VARIED}[A-Za-z0-9]{{24}}|{_ALPHANUMERIC}[A-Za-z0-9]{{20,40}})(?![\w-])",
        "OpenAI organisation IDs",
    ),
    SecretPattern(
        "openai-user",
        ("user-",),
        rf"{_START}user-{_ALPHANUMERIC}[A-Za-z0-9]{{20,32}}(?![\w-])",
        "OpenAI user IDs",
    ),
    SecretPattern(
        "openai-project",
        ("proj_",),
        rf"{_START}proj_(?:{_VARIED}[A-Za-z0-9]{{24}}|{_ALPHANUMERIC}[A-Za-z0-9]{{16,40}})(?![\w-])",
        "OpenAI project IDs",
    ),
    SecretPattern(
        "google-project",
        ("projects/",),
        r"projects/([a-z0-9][a-z0-9.:-]{2,60})/locations/",
        "Google Cloud project IDs in Vertex AI paths",
    ),
    SecretPattern(
        "aws-account",
        ("arn:aws", "arn%3Aaws"),
        r"arn(?::|%3A)aws[a-z-]{0,10}(?::|%3A)[a-z0-9-]{1,32}(?::|%3A)[a-z0-9-]{0,24}(?::|%3A)"
        r"([0-9]{12})(?![0-9])",
        "AWS account IDs in ARNs",
    ),
    # Optional: also found in harmless text
    SecretPattern(
        "email",
        ("@",),
        r"(?:(?<![\w.%+\\-])|(?<=\\[nrt])|(?<=\\u00[0-9a-f]{2}))[\w.%+-]{1,64}@"
        r"[A-Za-z0-9-]{1,63}\.[A-Za-z0-9.-]{0,126}[A-Za-z]{2}(?![A-Za-z0-9])",
        "e-mail addresses",
        is_optional=True,
        lookback=64,
    ),
    SecretPattern(
        "phone",
        ("+1 ", "+1-", "+1(", "+1.", "+7 ", "+7-", "+7(", *(f"+{code}" for code in range(10, 100))),
        r"(?<![A-Za-z0-9+/=])\+[1-9](?![0-9 .()-]{0,16}  )[0-9 .()-]{6,18}[0-9](?![A-Za-z0-9])",
        "international telephone numbers",
        is_optional=True,
    ),
    SecretPattern(
        "home-paths",
        ("/home/", "/Users/", ":\\Users\\", ":\\\\Users\\\\"),
        rf"(?:{_PATH_START}/(?:home|Users)/|:\\{{1,2}}Users\\{{1,2}})"
        r"(?!(?:[Uu]ser(?:name)?|USERNAME|runner|you|Shared|Public|Default)(?![\w.-]))([\w.-]{1,64})",
        "user names in home directory paths",
        is_optional=True,
    ),
)
"""All patterns.  Where several match the same bytes, the first one counts."""
