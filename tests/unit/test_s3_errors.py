"""Errors of the S3 client, as an operator reads them."""

from forager.storage.s3 import explain

REQUEST = "Generic S3 error: Error performing list request: Error performing"


def test_an_answer_of_the_server_is_its_message_and_code_without_the_xml() -> None:
    xml = '<?xml version="1.0"?> <Error><Code>NoSuchBucket</Code><Message>The bucket does not exist.</Message></Error>'
    error = OSError(
        f"{REQUEST} GET https://s3.example/lake in 2ms - status code: 404 Not Found: {xml}\n\nDebug source: x"
    )
    assert explain(error) == "The bucket does not exist (NoSuchBucket)"


def test_without_a_key_and_without_a_role_the_message_names_the_missing_settings() -> None:
    error = OSError(
        f"{REQUEST} PUT http://169.254.169.254/latest/api/token in 1.7ms - HTTP error: error sending request"
    )
    assert "set FORAGER_S3_ACCESS_KEY and FORAGER_S3_SECRET_KEY" in explain(error)


def test_a_server_that_does_not_answer_is_named() -> None:
    error = OSError(f"{REQUEST} GET http://minio.example:9000/lake?prefix=x in 9ms - HTTP error: error sending request")
    assert explain(error) == "http://minio.example:9000 cannot be reached"


def test_any_other_error_keeps_its_words_and_an_empty_one_has_its_name() -> None:
    assert explain(OSError("Generic S3 error: odd\nand long")) == "odd and long"
    assert explain(OSError("")) == "OSError"
