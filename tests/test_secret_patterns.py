"""The table of secret patterns: what each one finds, and what none may find.

No key is written as one literal: a forge would take it for a real one.  In a positive, `«»` marks
the secret unless all of it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice
from typing import Final

from case_tables import each_row
from linear_time import assert_linear
from llm_proxy.redaction.patterns import LONGEST_AFTER_KEYWORD, SECRET_PATTERNS, SecretPattern
from thoroughness import quick_or_thorough

PATTERNS: Final = {pattern.name: pattern for pattern in SECRET_PATTERNS}


def mixed(length: int) -> str:
    """Letters and digits that look random."""
    return ("aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * (length // 32 + 1))[:length]


def lower(length: int) -> str:
    """Small letters and digits."""
    return ("k7m2x9qd4vz8n3tw6hb5rc1pf0gjy" * (length // 29 + 1))[:length]


def upper(length: int) -> str:
    """Capitals, and digits from 2 to 7."""
    return ("Q3ZT7KDM2XWY5LBH4RNC6VGP" * (length // 24 + 1))[:length]


def hexa(length: int) -> str:
    """Hexadecimal digits."""
    return ("3f2c8a1e0d4b96c7" * (length // 16 + 1))[:length]


def pem(label: str, newline: str, headers: str = "") -> str:
    """A private key that lacks its last line."""
    lines = [f"-----BEGIN {label}-----", *([headers] if headers else []), *([mixed(64)] * 4)]
    return newline.join([*lines, "Ab+/==", ""])


def whole_pem(label: str, newline: str, headers: str = "") -> str:
    """A private key."""
    return pem(label, newline, headers) + f"-----END {label}-----"


PRIVATE: Final = "PRIVATE" + " KEY"
JWT_HEAD: Final = "ey" + "JhbGciOiJIUzI1NiJ9"
BOT_ID: Final = "MTA" + mixed(21)

# name: (positives, near misses)
CASES: Final[dict[str, tuple[list[str], list[str]]]] = {
    "anthropic-key": (
        ["sk-ant-" + "api03-" + mixed(93), "sk-ant-" + "admin01-" + mixed(40) + "-_" + mixed(9),
         "sk-ant-" + "oat01-" + mixed(93), "sk-ant-" + "ort01-" + mixed(20), "sk-ant-" + mixed(40),
         f"Authorization: Bearer «sk-ant-api03-{mixed(93)}»"],
        ["sk-ant-api03-your-anthropic-key-here", "sk-ant-api03-XXXXXXXXXXXXXXXXXXXXX", "sk-ant-a1"],
    ),
    "openai-key": (
        ["sk-proj-" + mixed(74) + "T3BlbkFJ" + mixed(74), "sk-svcacct-" + mixed(30),
         "sk-admin-" + mixed(20) + "_-" + mixed(20), "sk-" + mixed(20) + "T3BlbkFJ" + mixed(20)],
        ["sk-proj-your-openai-api-key", "sk-proj-XXXXXXXXXXXXXXXXXXXXXXXX", "sk-svcacct-a1B2"],
    ),
    "openrouter-key": (
        ["sk-or-" + "v1-" + hexa(64), "sk-or-" + mixed(40)],
        ["sk-or-v1-your-openrouter-key", "sk-or-v1-3f2c"],
    ),
    "helicone-key": (
        ["sk-helicone-" + "3f2c8a1-0d4b96c-7f3a2c1-e0d4b96", "pk-helicone-" + lower(30)],
        ["sk-helicone-your-key-comes-here", "sk-helicone-3f2c8a1"],
    ),
    "langfuse-key": (
        ["sk-lf-" + "3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a", "pk-lf-" + hexa(32)],
        ["sk-lf-your-secret-key-here", "pk-lf-1234"],
    ),
    "sk-key": (
        ["sk-" + hexa(32), "sk-" + mixed(48), "sk-" + mixed(9) + "_" + mixed(12)],
        ["sk-" + "a" * 48, "sk-" + hexa(31), "sk-loading-indicator-rotate-45-degrees",
         "task-" + mixed(48), "_sk-" + mixed(48)],
    ),
    "masked-key": (
        ["sk-proj-" + "*" * 30 + "MxYA", "sk-****abcd", "key_8Tjw" + "*" * 24 + "rtUb",
         "sk-...wXy4"],
        ["sk-***abcd", "**sk-**bold", "sk-****", "sk-...", "sk-...your-key"],
    ),
    "google-api-key": (
        ["AIza" + "Sy" + mixed(33), "AIza" + mixed(30) + "_-" + mixed(5)],
        ["AIza", "AIzaSy" + mixed(9), "x-AIza" + mixed(35)],
    ),
    "gemini-key": (
        ["AQ." + "Ab8RN6" + mixed(44), "AQ." + "Ab" + mixed(40) + "-_A"],
        ["AQ.Ab8RN6", "AQ.Abstract-of-the-faq", "AQ.Cd" + mixed(48)],
    ),
    "google-oauth-token": (
        ["ya29." + "a0" + mixed(100), "ya29." + "c.b0" + mixed(100), "1//0" + "g" + mixed(80)],
        ["ya29.short", "1//0" + mixed(20), "ya29x" + mixed(40)],
    ),
    "google-client-secret": (
        ["GOCSPX-" + mixed(28), "GOCSPX-" + mixed(10) + "-_" + mixed(16)],
        ["GOCSPX-secret", "GOCSP-" + mixed(28)],
    ),
    "groq-key": (
        ["gsk_" + mixed(52), "gsk_" + mixed(40)],
        ["gsk_your_groq_api_key_here", "gsk_" + mixed(12), "a-gsk_" + mixed(52)],
    ),
    "xai-key": (
        ["xai-" + mixed(80), "xai-" + mixed(64)],
        ["xai-grok-4-fast-reasoning-preview-2025", "xai-" + "x" * 80],
    ),
    "perplexity-key": (
        ["pplx-" + mixed(48), "pplx-" + mixed(40)],
        ["pplx-70b-online", "pplx-" + "x" * 48],
    ),
    "nvidia-key": (
        ["nvapi-" + mixed(64), "nvapi-" + mixed(30) + "-_" + mixed(32)],
        ["nvapi-your-nvidia-api-key", "nvapi-a1B2c3"],
    ),
    "hugging-face-token": (
        ["hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH", "api_org_" + mixed(34),
         "hf_" + "oauth_eyJ" + mixed(40) + "." + mixed(40)],
        ["hf_hub_download_and_cache_files", "hf_" + "x" * 34, "hf_transfer"],
    ),
    "replicate-token": (
        ["r8_" + mixed(37), "r8_" + mixed(40)],
        ["r8_" + mixed(20), "r8_" + mixed(50), "r8_" + "a" * 37],
    ),
    "fireworks-key": (
        ["fw_" + mixed(24), "fw_" + mixed(40)],
        ["fw_" + "a" * 24, "fw_version_2024_release_notes", "fw_" + mixed(12), "x_fw_" + mixed(24)],
    ),
    "cerebras-key": (
        ["csk-" + lower(48), "csk-" + lower(52)],
        ["csk-" + lower(20), "csk-" + "a" * 48, "csk-" + mixed(48)],
    ),
    "together-key": (
        ["tgp_v1_" + mixed(43), "tgp_v1_" + mixed(20) + "-_" + mixed(21)],
        ["tgp_v1_your_together_api_key", "tgp_v1_a1B2"],
    ),
    "anyscale-key": (
        ["esecret_" + lower(26), "esecret_" + mixed(32)],
        ["esecret_your_key_goes_right_here", "esecret_" + mixed(9)],
    ),
    "databricks-token": (
        ["dapi" + hexa(32), "dapi" + hexa(32) + "-2"],
        ["dapi" + hexa(40), "dapi" + "a" * 32, "dapi" + mixed(32)],
    ),
    "voyage-key": (
        ["pa-" + mixed(43), "pa-" + mixed(20) + "-_" + mixed(21)],
        ["pa-" + mixed(42), "pa-" + mixed(44), "pa-" + lower(43), "spa-" + mixed(43)],
    ),
    "jina-key": (
        ["jina_" + hexa(32) + mixed(28), "jina_" + mixed(60)],
        ["jina_embeddings_v3_text_matching_2024", "jina_" + mixed(20)],
    ),
    "tavily-key": (
        ["tvly-" + mixed(32), "tvly-" + "dev-" + mixed(32)],
        ["tvly-dev-your-api-key-here", "tvly-a1B2"],
    ),
    "firecrawl-key": (
        ["fc-" + hexa(32), "fc-" + hexa(32)[::-1]],
        ["fc_" + hexa(32), "fc-" + hexa(40), "fc-" + "a" * 32, "abc-fc-" + mixed(32)],
    ),
    "pinecone-key": (
        ["pcsk_" + mixed(5) + "_" + mixed(63), "pcsk_" + mixed(60)],
        ["pcsk_your_pinecone_key_here", "pcsk_a1B2"],
    ),
    "langsmith-key": (
        ["lsv2_" + "pt_" + hexa(32) + "_" + hexa(10), "lsv2_" + "sk_" + hexa(32) + "_" + hexa(10),
         "ls__" + hexa(32)],
        ["lsv2_pt_your_langsmith_key_here", "lsv2_pt_3f2c", "ls__init__"],
    ),
    "wandb-key": (
        ["wandb_v1_" + mixed(27) + "_" + mixed(49), "wandb_v1_" + mixed(40)],
        ["wandb_v1_your_wandb_key_here", "wandb_v1_a1B2"],
    ),
    "llama-cloud-key": (
        ["llx-" + mixed(48), "llx-" + mixed(40)],
        ["llx-your-key", "llx-" + mixed(20), "llx-" + "x" * 48],
    ),
    "vercel-key": (
        ["vck_" + mixed(56), "vcp_" + mixed(56)],
        ["vck_" + "x" * 56, "vck_" + mixed(12)],
    ),
    "stripe-key": (
        ["sk_live_" + mixed(24), "rk_test_" + mixed(99), "whsec_" + mixed(32)],
        ["sk_test_your_stripe_key_here", "sk_live_" + mixed(9), "whsec_" + "x" * 32],
    ),
    "elevenlabs-key": (
        ["sk_" + hexa(48), "sk_" + hexa(40)],
        ["sk_" + hexa(32), "sk_" + "a" * 48, "sk_" + mixed(48), "task_sk_" + hexa(48)],
    ),
    "bedrock-key": (
        ["ABSK" + "QmVkcm9ja0FQSUtleS" + mixed(80), "ABSK" + mixed(120) + "==",
         "bedrock-api-key-" + mixed(200)],
        ["ABSK" + mixed(60), "/ABSK" + mixed(120), "ABSK" + mixed(600),
         "bedrock-api-key-authentication"],
    ),
    "aws-access-key-id": (
        ["AKIA" + "IOSFODNN7EXAMPLE", "ASIA" + upper(16)],
        ["AKIA" + upper(15), "AKIA" + upper(17), "AKIA" + lower(16)],
    ),
    "aws-secret-key": (
        [f"aws_secret_access_key = «{mixed(40)}»", f"AWS_SECRET_ACCESS_KEY=«{mixed(40)}»",
         f"<SecretAccessKey>«{mixed(40)}»</SecretAccessKey>", f"secretAccessKey: «{mixed(40)}»",
         f'AWS_SECRET_ACCESS_KEY="«{mixed(40)}»"', f'{{"SecretAccessKey": "«{mixed(40)}»"}}',
         f'aws_secret_access_key: \\\\\\"«{mixed(40)}»\\\\\\"'],
        ["secret_access_key = your-key", f"secret_access_key = {mixed(41)}",
         "SecretAccessKey: str"],
    ),
    "aws-session-token": (
        ["IQoJb3JpZ2lu" + "X2VjE" + mixed(200), "FwoGZXIvYXdz" + mixed(100) + "%2F" + mixed(90)],
        ["IQoJb3JpZ2lu", "FwoGZXIvYXdz" + mixed(20)],
    ),
    "url-signature": (
        [f"X-Amz-Signature=«{hexa(64)}»", f"&X-Goog-Signature=«{hexa(512)}»&x=1"],
        ["X-Amz-Signature=" + hexa(32), "X-Amz-SignedHeaders=" + hexa(64)],
    ),
    "azure-access-key": (
        [f"AccountName=a;AccountKey=«{mixed(86)}==»;EndpointSuffix=core.windows.net",
         f"SharedAccessKeyName=x;SharedAccessKey=«{mixed(43)}=»"],
        ["AccountKey=<key>", "SharedAccessKey=" + mixed(20)],
    ),
    "azure-sas-signature": (
        [f"?sv=2024-11-04&sig=«{mixed(20)}%2B{mixed(22)}%3D»&se=2026", f"sig=«{mixed(43)}=»"],
        ["sig=" + mixed(20) + "=", "sig=" + mixed(43), "sig=" + mixed(120) + "="],
    ),
    "azure-client-secret": (
        ["a1B" + "8Q~" + mixed(34), "~.z" + "7Q~" + mixed(31)],
        ["a1B8Q~" + mixed(20), "a1B8Q~" + mixed(40), "8Q~" + mixed(34)],
    ),
    "azure-resource-key": (
        [mixed(52) + "JQQJ99" + "BCACYeBjFXJ3w3AAABACOG" + mixed(4),
         mixed(52) + "AQQJ99" + mixed(26)],
        [mixed(20) + "JQQJ99" + mixed(26), mixed(52) + "JQQJ99" + mixed(9)],
    ),
    "digitalocean-token": (
        ["dop_v1_" + hexa(64), "dor_v1_" + hexa(64)],
        ["dop_v1_" + hexa(16), "dop_v1_your_digitalocean_token"],
    ),
    "vault-token": (
        ["hvs." + "CAES" + mixed(90), "hvb." + mixed(140), "hvr." + mixed(24)],
        ["hvs.getConfiguration()", "hvs." + "x" * 40],
    ),
    "doppler-token": (
        ["dp." + "pt." + mixed(43), "dp." + "st.dev_ann." + mixed(43),
         "dp." + "audit." + mixed(40)],
        ["dp.pt.your_doppler_token", "dp.st.dev." + mixed(12)],
    ),
    "onepassword-token": (
        ["ops_" + "eyJ" + mixed(250), "ops_" + "eyJ" + mixed(300) + "=="],
        ["ops_eyJ", "ops_" + mixed(300)],
    ),
    "age-key": (
        ["AGE-SECRET-KEY-" + "1" + upper(58), "AGE-SECRET-KEY-" + "PQ-1" + upper(80)],
        ["AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1" + upper(20)],
    ),
    "github-token": (
        ["ghp_" + mixed(36), "ghs_" + mixed(36), "github_pat_" + mixed(22) + "_" + mixed(59),
         "ghs_" + "123456_" + JWT_HEAD + "." + JWT_HEAD + "." + mixed(43)],
        ["ghp_your_github_token_here", "ghp_" + "x" * 36, "github_pat_a1B2", "ghx_" + mixed(36)],
    ),
    "gitlab-token": (
        ["glpat-" + mixed(20), "glpat-" + mixed(27) + ".01." + lower(9),
         "glrt-" + "t3_" + mixed(27),
         "GR1348941" + mixed(20)],
        ["glpat-your-gitlab-token", "glpat-a1B2", "glxxx-" + mixed(20)],
    ),
    "atlassian-token": (
        ["ATBB" + mixed(32), "ATATT3" + "xFfGF0" + mixed(170) + "=" + upper(8)],
        ["ATBB" + mixed(12), "ATBB" + mixed(60), "ATATT3" + mixed(12)],
    ),
    "npm-token": (
        ["npm_" + mixed(36), "npm_" + mixed(40)],
        ["npm_config_registry_and_other_settings", "npm_" + mixed(20), "npm_" + "x" * 36],
    ),
    "pypi-token": (
        ["pypi-" + "AgEIcHlwaS5vcmc" + mixed(150), "pypi-" + "AgENdGVzdC5weXBpLm9yZw" + mixed(99)],
        ["pypi-AgEIcHlw", "pypi-attestations-" + mixed(30)],
    ),
    "docker-token": (
        ["dckr_pat_" + mixed(27), "dckr_oat_" + mixed(32)],
        ["dckr_pat_your_docker_token", "dckr_pat_a1B2"],
    ),
    "slack-token": (
        ["xoxb-" + "123456789012-1234567890123-" + mixed(24), "xoxp-" + "1234567890-" + hexa(32),
         "xapp-" + "1-A0B1C2D3E4F-1234567890123-" + hexa(64), "xoxe.xox" + "p-1-" + upper(163)],
        ["xoxb-your-slack-token", "xoxb-not-a-token", "xoxz-" + mixed(40)],
    ),
    "slack-webhook": (
        [f"https://hooks.slack.com/services/«T{upper(8)}/B{upper(10)}/{mixed(24)}»",
         f"https://hooks.slack.com/triggers/«E{upper(8)}/1234567890/{hexa(32)}»"],
        ["https://hooks.slack.com/services/T000/B000/XXXX", "https://hooks.slack.com/services/"],
    ),
    "discord-token": (
        [f"{BOT_ID}.GaBcDe.{mixed(38)}", f"Mz{BOT_ID[2:]}AA.X_-y12.{mixed(27)}"],
        [f"{BOT_ID}.GaBcDe", f"{BOT_ID}.GaBcDe.{mixed(60)}", f"AB{BOT_ID[2:]}.GaBcDe.{mixed(38)}"],
    ),
    "discord-webhook": (
        [f"https://discord.com/api/webhooks/«123456789012345678/{mixed(68)}»",
         f"https://discordapp.com/api/webhooks/«1234567890123456789/{mixed(60)}-_{mixed(6)}»"],
        ["https://a.example/api/webhooks/123/" + mixed(68), "/api/webhooks/123456789012345678"],
    ),
    "telegram-token": (
        ["123456789:" + "AA" + mixed(33), f"/bot«1234567890:AA{mixed(33)}»/getMe"],
        ["12345:AA" + mixed(33), "123456789:AA" + mixed(20), "123456789:AB" + mixed(33)],
    ),
    "twilio-id": (
        ["SK" + hexa(32), "AC" + hexa(32)],
        ["SK" + hexa(31), "AC" + hexa(40), "AC" + "a" * 32, "SK" + upper(32)],
    ),
    "sendgrid-key": (
        ["SG." + mixed(22) + "." + mixed(43), "SG." + mixed(20) + "-_." + mixed(41) + "-_"],
        ["SG." + mixed(22), "SG." + mixed(5) + "." + mixed(43)],
    ),
    "shopify-token": (
        ["shpat_" + hexa(32), "shpss_" + hexa(32).upper()],
        ["shpat_" + hexa(8), "shpat_your_shopify_access_token"],
    ),
    "grafana-token": (
        ["glsa_" + mixed(32) + "_" + hexa(8), "glc_" + "eyJ" + mixed(120) + "=="],
        ["glsa_your_grafana_service_account_tok", "glc_" + mixed(9)],
    ),
    "sentry-token": (
        ["sntrys_" + "eyJ" + mixed(120) + "=_" + mixed(43), "sntryu_" + hexa(64)],
        ["sntrys_your_token", "sntryu_" + hexa(9)],
    ),
    "posthog-key": (
        ["phc_" + mixed(43), "phx_" + mixed(47)],
        ["phc_" + "x" * 43, "phc_" + mixed(12)],
    ),
    "linear-key": (
        ["lin_api_" + mixed(40), "lin_oauth_" + hexa(64)],
        ["lin_api_your_linear_api_key_here", "lin_api_" + mixed(9)],
    ),
    "notion-token": (
        ["ntn_" + "12345678901" + mixed(35), "secret_" + mixed(43)],
        ["secret_" + mixed(42), "secret_" + mixed(44), "client_secret_" + mixed(43),
         "ntn_" + mixed(20)],
    ),
    "figma-token": (
        ["figd_" + mixed(40), "figd_" + mixed(20) + "-_" + mixed(18)],
        ["figd_your_figma_token_here", "figd_a1B2"],
    ),
    "airtable-token": (
        ["pat" + mixed(14) + "." + hexa(64), "pat" + lower(14) + "." + hexa(64)],
        ["pat" + mixed(14) + "." + hexa(63), "pat" + mixed(14), "pattern.match"],
    ),
    "supabase-key": (
        ["sbp_" + hexa(40), "sb_secret_" + mixed(31)],
        ["sbp_" + hexa(12), "sb_secret_your_supabase_secret", "sb_publishable_" + mixed(31)],
    ),
    "private-key": (
        [whole_pem("RSA " + PRIVATE, "\n", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,3F2C\n"),
         whole_pem("OPENSSH " + PRIVATE, r"\n"), whole_pem("ENCRYPTED " + PRIVATE, r"\r\n"),
         whole_pem(PRIVATE, r"\\n"), whole_pem(PRIVATE, " "),
         whole_pem("PGP " + PRIVATE + " BLOCK", "\n", "Version: GnuPG v2 (Linux)\n"),
         pem("EC " + PRIVATE, "\n"), pem(PRIVATE, r"\n"), pem(PRIVATE, r"\\n"),
         pem("RSA " + PRIVATE, r"\n", r"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,3F2C\n")],
        [f"-----BEGIN {PRIVATE}-----", f"-----BEGIN {PRIVATE}-----\n...\n-----END {PRIVATE}-----",
         whole_pem("PUBLIC KEY", "\n"), whole_pem("CERTIFICATE", "\n")],
    ),
    "jwt": (
        [f"{JWT_HEAD}.eyJ{mixed(60)}.{mixed(43)}", f"{JWT_HEAD}.eyJ{mixed(60)}"],
        [JWT_HEAD, f"{JWT_HEAD}.{mixed(60)}", f"eyJ.eyJ.{mixed(9)}"],
    ),
    "url-password": (
        ["https://«ann:hunter2»@host/x", "redis://«:s3cr.t»@127.0.0.1:6379",
         "mongodb+srv://«a%40b:p%2Fw$x»@h1,h2/db", r"https:\/\/«ann:hunter2»@host"],
        ["https://user:pass@host", "https://username:password@host", "http://ann:${PASSWORD}@h",
         "http://ann:<password>@h", "http://ann:***@h", "http://h:8080/@scope/name",
         "http://ann@host", "https://you:YOUR_TOKEN@host", "http://u:$PASSWORD@h"],
    ),
    "bearer-token": (
        [f"Authorization: Bearer «{mixed(24)}»", f"bearer «{hexa(20)}=»"],
        ["Bearer test_openai_api_key_of_nobody", "Bearer " + mixed(12), "Bearer <AUTH_TOKEN>",
         "Bearer of the 2 rings", "Bearer realm="],
    ),
    "basic-credentials": (
        [f"Authorization: Basic «{mixed(22)}==»", f"basic «{mixed(40)}»"],
        ["Basic YTpi", "Basic authentication of 2 users", "Basic internationalisation"],
    ),
    "cloudflare-cookie": (
        [f"__cf_bm=«{mixed(43)}-1774963842.26-1.0.1.1-{mixed(86)}»; path=/",
         f"_cfuvid=«{mixed(43)}-1709033863940-0.0.1.1-604800000»; path=/"],
        ["__cf_bm=", "_cfuvid=accepted", "cf_bm=" + mixed(43)],
    ),
    "openai-organization": (
        ["org-" + mixed(24), "org-" + "aBcDeFgHiJkLmNoPqRsTuVwX"],
        ["org-myaccount", "org-" + "a" * 24, "my-org-" + mixed(24), "org-" + mixed(60)],
    ),
    "openai-user": (
        ["user-" + lower(24), "user-" + mixed(24)],
        ["user-agent", "user-" + "a" * 24, "end-user-" + lower(24), "user-" + lower(40)],
    ),
    "openai-project": (
        ["proj_" + mixed(24), "proj_" + "aBcDeFgHiJkLmNoPqRsTuVwX", "proj_" + lower(16)],
        ["proj_my_project", "proj_" + "a" * 24, "q_proj_" + mixed(24)],
    ),
    "google-project": (
        ["/v1/projects/«shop-4711»/locations/us-east5/x",
         "projects/«123456789012»/locations/global"],
        ["projects/{id}/locations/x", "projects/<ID>/locations/x", "projects/shop/tasks",
         "projects/-/locations/x"],
    ),
    "aws-account": (
        ["arn:aws:bedrock:us-east-1:«123456789012»:application-inference-profile/x",
         "arn%3Aaws%3Aiam%3A%3A«123456789012»%3Arole", "arn:aws-us-gov:iam::«210987654321»:user/a"],
        ["arn:aws:bedrock:us-east-1::foundation-model/x", "arn:aws:iam::aws:policy/x",
         "arn:aws:s3:::123456789012"],
    ),
    "email": (
        ["«ann.b+c@mail.example.com»", r"\n«ann@example.com»", r"\u003c«ann@example.com»\u003e"],
        ["@example.com", "ann@localhost", "ann@@example.com", "pip@24.0"],
    ),
    "phone": (
        ["+1 (415) 555-0123", "+4930123456", "+33 6 12 34 56 78"],
        ["+10", "1+12345678901", "2024-01-01T00:00:00+01:00", "+65        0", "+12" + "3" * 30],
    ),
    "home-paths": (
        ["/home/«ann»/x", "file:///Users/«ann.b»", r"C:\Users\«Ann»\x", r"C:\\Users\\«Ann»\\x",
         r"\n/home/«ann»"],
        ["/home/user/x", "https://a.example/home/about", "/Users/Shared/x", "/home/",
         "/srv/home/x"],
    ),
}  # fmt: skip

POSITIVES: Final = [(name, text) for name, (texts, _) in CASES.items() for text in texts]


@cache
def compiled(pattern: SecretPattern) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """The keywords and the regex."""
    keywords = "|".join(map(re.escape, pattern.keywords))
    return re.compile(keywords.encode()), re.compile(pattern.regex.encode())


def matches(pattern: SecretPattern, data: bytes) -> Iterator[re.Match[bytes]]:
    """The matches of one pattern, as the search finds them."""
    keywords, regex = compiled(pattern)
    end = 0
    for keyword in keywords.finditer(data):
        start = keyword.start()
        if pattern.lookback:
            match = regex.search(
                data, max(end, start - pattern.lookback), start + LONGEST_AFTER_KEYWORD
            )
        elif start >= end and not (
            keyword[0][:1].isalnum() and data[max(start - 1, 0) : start].isalnum()
        ):
            match = regex.match(data, start)
        else:
            match = None
        if match:
            end = match.end()
            yield match


def secrets(text: str) -> list[tuple[str, str]]:
    """The secrets in a text with the names of their patterns; the first pattern wins."""
    found: list[tuple[int, int, str]] = []
    for pattern in SECRET_PATTERNS:
        for match in matches(pattern, text.encode()):
            start, end = match.span(1 if match.re.groups else 0)
            if all(end <= first or last <= start for first, last, _ in found):
                found.append((start, end, pattern.name))
    return [(name, text.encode()[start:end].decode()) for start, end, name in sorted(found)]


def secret_in(marked: str) -> tuple[str, str]:
    """A positive without its marks, and the secret in it."""
    secret = re.search("«(.*)»", marked)
    text = re.sub("[«»]", "", marked)
    return text, secret[1] if secret else text


def test_every_pattern_has_a_name_of_its_own_positives_and_near_misses() -> None:
    assert [*CASES] == [pattern.name for pattern in SECRET_PATTERNS]
    for name, (positives, negatives) in CASES.items():
        assert re.fullmatch("[a-z]+(-[a-z]+)*", name)
        assert len(positives) >= 2, name
        assert len(negatives) >= 2, name


@each_row(("name", "marked"), POSITIVES)
def test_a_secret_is_found_whole_by_its_pattern_alone(name: str, marked: str) -> None:
    text, secret = secret_in(marked)
    assert secrets(text) == [(name, secret)]
    assert secrets(f'{{"key": "{text}", "id": 1}}') == [(name, secret)]


@each_row(("name", "text"), [(name, text) for name, (_, texts) in CASES.items() for text in texts])
def test_a_near_miss_is_not_found(name: str, text: str) -> None:
    assert name not in [found for found, _ in secrets(text)]


@each_row(
    "text",
    [
        *(prefix + mixed(24) for prefix in (
            "chatcmpl-", "msg_", "fc_", "call_", "toolu_01", "file-", "req_", "batch_", "asst_",
            "thread_", "run_", "vs_", "gen-", "chatcmpl-tool-", "srvtoolu_01", "item_", "conv_",
        )),
        *(prefix + hexa(48) for prefix in ("resp_", "rs_", "msg_", "fc_", "ig_", "ws_")),
        "fp_" + hexa(10),
        "gAAAAAB" + mixed(900) + "-_" + mixed(99) + "==",
        "EqQB" + mixed(400) + "+/" + mixed(60) + "==",
        "data:image/png;base64,iVBORw0KGgo" + mixed(3000) + "/+" + mixed(200) + "=",
        "3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a",
        "user-3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a",
        hexa(64),
        "sha256:" + hexa(64),
        hexa(40),
        mixed(21),
        "V1StGXR8_Z5jdHi6B-myT",
        "sk-ant-api03-XXXXXXXXXXXXXXXXXXXXXXXXXXX",
        "export OPENAI_API_KEY=sk-proj-your-api-key-here",
    ],
)  # fmt: skip
def test_what_a_conversation_needs_is_not_found(text: str) -> None:
    assert secrets(json.dumps({"id": text})) == []


@each_row(("name", "marked"), POSITIVES)
def test_every_match_begins_with_a_keyword(name: str, marked: str) -> None:
    pattern = PATTERNS[name]
    text = secret_in(marked)[0].encode()
    for match in matches(pattern, text):
        places = [match[0].find(keyword.encode()) for keyword in pattern.keywords]
        assert any(0 <= place <= pattern.lookback for place in places)


@each_row("pattern", SECRET_PATTERNS)
def test_every_keyword_finds_a_secret(pattern: SecretPattern) -> None:
    positives = [secret_in(marked)[0] for marked in CASES[pattern.name][0]]
    own = re.compile("|".join(map(re.escape, pattern.keywords)))
    for keyword in pattern.keywords:
        assert len(keyword) >= 3 or pattern.lookback
        texts = [own.sub(lambda _, to=keyword: to, text, count=1) for text in positives]  # type: ignore[misc] # the default binds the keyword
        assert any(any(matches(pattern, text.encode())) for text in texts), keyword


@each_row(("name", "marked"), POSITIVES)
def test_a_match_crosses_no_quote_brace_or_newline(name: str, marked: str) -> None:
    text = secret_in(marked)[0]
    for separator in ('"', r"\"", "{", "}", *(["\n"] if name != "private-key" else [])):
        for match in islice(matches(PATTERNS[name], f"{text}{separator}{text}".encode()), 1):
            assert match.end() <= len(text.encode()), separator


@each_row(("name", "marked"), [row for row in POSITIVES if row[0] != "private-key"])
def test_a_longer_run_is_no_key_or_found_to_its_end(name: str, marked: str) -> None:
    text, secret = secret_in(marked)
    data = text.replace(secret, re.sub("(=|%3D)*$", r"1Ab\g<0>", secret, count=1)).encode()
    for match in matches(PATTERNS[name], data):
        end = match.end(1 if match.re.groups else 0)
        assert not data[end : end + 1].isalnum()


@each_row("pattern", SECRET_PATTERNS)
def test_the_search_takes_linear_time(pattern: SecretPattern) -> None:
    positive = secret_in(CASES[pattern.name][0][0])[0]
    keyword = pattern.keywords[0]
    longest = quick_or_thorough(8_000, 40_000)
    for text in (
        *(keyword + filler for filler in ("", "-", "a", "a-", ".")),
        *(keyword + filler * longest for filler in ("a", "1", "A1", "-a1", "*", "\\n", " ")),
        positive,
        positive[:-1] + "-",
        positive + mixed(32) * 1000 + "~",
    ):
        data = (text * (longest // len(text) + 1)).encode()
        assert_linear(partial(count_matches, pattern, data), longest)


def count_matches(pattern: SecretPattern, data: bytes, size: int) -> int:
    return sum(1 for _ in matches(pattern, data[:size]))
