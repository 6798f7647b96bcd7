# Every target is described where it stands; `make` alone prints the list.
ARCH ?= arm64
# Flags of `go test`, such as RACE=-race.
RACE ?=
GO_BUILD = CGO_ENABLED=0 go build -tags lambda.norpc -trimpath -ldflags="-s -w"
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## the whole system on this machine, with a live table; ARGS="-config FILE" for your own servers
	go run ./infra/local $(ARGS)

.PHONY: demo
demo: ## the same, with a scripted outage; ends by itself in under a minute
	go run ./infra/local -demo

.PHONY: test
test: ## all tests; RACE=-race for the race detector
	go test $(RACE) ./...

.PHONY: build
build: ## the functions for Lambda, in dist/; ARCH=amd64 to change
	GOOS=linux GOARCH=$(ARCH) $(GO_BUILD) -o dist/prober/bootstrap ./functions/prober
	GOOS=linux GOARCH=$(ARCH) $(GO_BUILD) -o dist/reconciler/bootstrap ./functions/reconciler

.PHONY: lint
lint: ## gofmt, golangci-lint (go vet, staticcheck and more), and go.mod in order
	@unformatted=$$(gofmt -l functions infra pkg); if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted"; exit 1; fi
	go run $(GOLANGCI) run ./...
	go mod tidy -diff

.PHONY: bench
bench: ## benchmarks of probing and packet encoding
	go test -run '^$$' -bench . -benchmem ./pkg/...

.PHONY: clean
clean: ## remove what was built
	rm -rf dist cdk.out
