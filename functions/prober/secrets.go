package main

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"radwitness/pkg/credentials"
)

// secrets reads credentials from AWS, or from the given environment. AWS is only
// configured, and a client built, when a fleet asks for its service.
func secrets(configure func() (aws.Config, error), environ []string, log *slog.Logger) *credentials.Store {
	return &credentials.Store{
		SecretsManager: sync.OnceValues(func() (credentials.SecretsManagerAPI, error) {
			cfg, err := configure()
			return secretsmanager.NewFromConfig(cfg), err
		}),
		SSM: sync.OnceValues(func() (credentials.SSMAPI, error) {
			cfg, err := configure()
			return ssm.NewFromConfig(cfg), err
		}),
		LookupEnv: func(name string) (string, bool) { return variable(environ, name) },
		Warn:      func(err error) { log.Warn("credentials not refreshed", "error", err) },
	}
}

// variable is one of an environment.
func variable(environ []string, name string) (string, bool) {
	for _, pair := range environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
