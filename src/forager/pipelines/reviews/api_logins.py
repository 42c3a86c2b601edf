"""Routes for Google logins: store one, list their names, remove one. A secret arrives in a body and is in no answer."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import FieldError, Transient
from forager.core.invalid import field_errors
from forager.core.secret import Secret
from forager.pipelines.reviews.settings import ReviewsSettings
from forager.sdk.http.envelope import JSON, Envelope, answer, refusal
from forager.sdk.http.routes import Router, example, failures
from forager.sdk.service import Service

PathName = Annotated[str, Path(max_length=200, description="Name of the login.", examples=["google"])]


class GoogleLoginBody(BaseModel):
    """An OAuth client with a refresh token, or with the code of a consent."""

    model_config = ConfigDict(
        extra="forbid",
        hide_input_in_errors=True,
        json_schema_extra={
            "examples": [{"client_id": "1-a.apps.example", "client_secret": "GOCSPX-…", "refresh_token": "1//0g…"}]
        },
    )

    client_id: str = Field(min_length=1, max_length=500)
    client_secret: SecretStr = Field(min_length=1, max_length=500)
    refresh_token: SecretStr | None = Field(default=None, min_length=1, max_length=2_000)
    code: SecretStr | None = Field(default=None, min_length=1, max_length=2_000)
    code_verifier: SecretStr | None = Field(default=None, min_length=43, max_length=128)
    redirect_uri: str | None = Field(default=None, max_length=500)


class GoogleLoginReport(BaseModel):
    name: str


class ConsentReport(BaseModel):
    url: str = Field(description="Page of consent, without its query.")
    scope: str


def add_logins(router: Router, service: Service) -> None:
    logins = service.tokens["reviews"]

    @router.get(
        "/review-logins",
        summary="List the Google logins",
        response_model=Envelope[list[GoogleLoginReport]],
        responses={200: example([{"name": "google"}]), **failures()},
    )
    async def list_google_logins(request: Request) -> Response:
        """Their names. Nothing else of them is ever returned."""
        return answer(request, [{"name": name} for name in await logins.names()])

    @router.get(
        "/review-consent",
        summary="Show where a user consents to a Google login",
        response_model=Envelope[ConsentReport],
        responses={
            200: example({"url": "https://accounts.google.com/o/oauth2/v2/auth", "scope": SCOPE}),
            **failures(),
        },
    )
    async def show_consent(request: Request) -> Response:
        own = service.settings.of(ReviewsSettings)
        return answer(request, {"url": own.google_consent_url, "scope": SCOPE})

    @router.put(
        "/review-logins/{name}",
        summary="Store a Google login",
        response_model=Envelope[GoogleLoginReport],
        responses={200: example({"name": "google"}), **failures(400, 503)},
        openapi_extra=_LOGIN_BODY,
    )
    async def put_google_login(request: Request, name: PathName) -> Response:
        """Asks Google once, and stores the login sealed, in place of an earlier one of this name. Give a
        `refresh_token`; or the `code` of a consent with its `code_verifier` and `redirect_uri`."""
        try:
            given = GoogleLoginBody.model_validate_json(await request.body())
        except ValidationError as error:
            wrong = field_errors(error) or [FieldError("refresh_token", "is required")]
            return refusal(request.scope, 400, "invalid", f"{wrong[0].field}: {wrong[0].message}", fields=wrong)
        secret = Secret(given.client_secret.get_secret_value())
        try:
            if given.refresh_token is not None:
                token = Secret(given.refresh_token.get_secret_value())
                await logins.put(name, given.client_id, secret, token)
            elif given.code is not None and given.code_verifier is not None and given.redirect_uri is not None:
                code = Secret(given.code.get_secret_value())
                verifier = Secret(given.code_verifier.get_secret_value())
                await logins.put_code(name, given.client_id, secret, code, verifier, given.redirect_uri)
            else:
                problem = FieldError("refresh_token", "give it, or code, code_verifier and redirect_uri")
                message = f"refresh_token: {problem.message}"
                return refusal(request.scope, 400, "invalid", message, fields=[problem])
        except Transient as error:
            return refusal(request.scope, 503, "upstream_away", error.message)
        return answer(request, {"name": name})

    @router.delete(
        "/review-logins/{name}",
        summary="Remove a Google login",
        response_model=Envelope[GoogleLoginReport],
        responses={200: example({"name": "google"}), **failures(404)},
    )
    async def delete_google_login(request: Request, name: PathName) -> Response:
        """Jobs that use it are paused when they need their next token. Google keeps its grant until it is revoked."""
        await logins.remove(name)
        return answer(request, {"name": name})


SCOPE = "https://www.googleapis.com/auth/business.manage"
_LOGIN_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": GoogleLoginBody.model_json_schema(),
                "examples": {
                    "refresh token": {
                        "value": {
                            "client_id": "1-a.apps.example",
                            "client_secret": "GOCSPX-…",
                            "refresh_token": "1//0g…",
                        }
                    }
                },
            }
        },
    }
}
