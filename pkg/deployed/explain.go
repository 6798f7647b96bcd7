package deployed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ssocreds"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// noCredentialsError says that no call can be made.
type noCredentialsError struct{ cause error }

func (e noCredentialsError) Error() string { return e.cause.Error() }
func (e noCredentialsError) Unwrap() error { return e.cause }

// Explain puts what to do in front of the errors of AWS that an operator meets.
func Explain(ctx context.Context, err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "\n  ")
	api, isAPI := errors.AsType[smithy.APIError](err)
	_, ssoExpired := errors.AsType[*ssocreds.InvalidTokenError](err)
	_, noProfile := errors.AsType[config.SharedConfigProfileNotExistError](err)
	_, noCredentials := errors.AsType[noCredentialsError](err)
	_, unsent := errors.AsType[*smithyhttp.RequestSendError](err)
	operation, isOperation := errors.AsType[*smithy.OperationError](err)
	switch {
	case ctx.Err() != nil:
		return "interrupted"
	case noProfile:
		return fmt.Sprintf("there is no such AWS profile: aws configure list-profiles names those there are (%s)", text)
	case ssoExpired:
		return fmt.Sprintf("the AWS session has ended: run aws sso login (%s)", text)
	case isAPI && slices.Contains(expired(), api.ErrorCode()):
		return fmt.Sprintf("the AWS credentials have expired or are not valid: log in again, or check AWS_PROFILE (%s)", api.ErrorMessage())
	case noCredentials:
		return fmt.Sprintf("there are no AWS credentials: set AWS_PROFILE or -profile, log in with aws sso login, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (%s)", text)
	case isAPI && (strings.HasPrefix(api.ErrorCode(), "AccessDenied") || strings.HasPrefix(api.ErrorCode(), "Unauthorized")):
		return fmt.Sprintf("these AWS credentials may not do that; docs/commands.md lists what the command needs (%s)", api.ErrorMessage())
	case isOperation && unsent:
		return fmt.Sprintf("%s cannot be reached from here: check network, proxy, region and AWS_ENDPOINT_URL (%s)", operation.Service(), text)
	}
	return text
}

// expired are the codes of credentials that were good once, or never
// (AWS IAM, "Common errors").
func expired() []string {
	return []string{"ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidSignatureException"}
}
