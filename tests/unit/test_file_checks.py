"""Checks by `forager doctor` of the files that settings name."""

from pathlib import Path

from pydantic import SecretStr

from forager.app.checks import check_files
from forager.app.config import new_settings
from forager.sdk.feature import Finding


def found(home: Path, **values: object) -> list[Finding]:
    return list(check_files(new_settings(home=home, **values)))


def test_nothing_is_checked_that_is_not_set(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_a_policy_file_is_read_and_every_mistake_named_with_its_line(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    (absent,) = found(tmp_path, domain_policies_path=rules)
    rules.write_text("domains:\n  shop.example:\n    intervall_seconds: 3\n")
    (wrong,) = found(tmp_path, domain_policies_path=rules)
    rules.write_text("domains:\n  shop.example:\n    interval_seconds: 3\n")
    (right,) = found(tmp_path, domain_policies_path=rules)
    assert [each.state for each in (absent, wrong, right)] == ["problem", "problem", "ok"]
    assert "cannot be read: No such file" in absent.message
    assert "line 3" in wrong.message
    assert "did you mean interval_seconds?" in wrong.message


def test_proxies_of_the_settings_are_read_and_no_password_is_shown(tmp_path: Path) -> None:
    (wrong,) = found(tmp_path, proxy_endpoints=(SecretStr("ftp://me:canary@proxy.example:21"),))
    assert wrong.state == "problem"
    assert wrong.message.startswith("SCRAPER_PROXY_ENDPOINTS[1]: ")
    assert "canary" not in wrong.message
    (absent,) = found(tmp_path, proxy_file=tmp_path / "absent")
    assert "FORAGER_PROXY_FILE" in absent.message
    (right,) = found(tmp_path, proxy_endpoints=(SecretStr("http://proxy.example:3128"),))
    assert (right.state, right.message) == ("ok", "1 proxy in the settings")


def test_a_backend_of_log_ins_needs_https_and_a_key(tmp_path: Path) -> None:
    key = {"backend_service_key": SecretStr("key")}
    (clear,) = found(tmp_path, backend_api_url="http://backend.example/api", **key)
    (keyless,) = found(tmp_path, backend_api_url="https://backend.example/api")
    (right,) = found(tmp_path, backend_api_url="https://backend.example/api", **key)
    assert [each.state for each in (clear, keyless, right)] == ["problem", "problem", "ok"]
    assert "it should begin with https://" in clear.message
    assert "FORAGER_BACKEND_SERVICE_KEY is not set" in keyless.message
