# Every target is described where it stands; `make` alone prints the list.
ARCH ?= arm64
# The fleet file to deploy.
FLEET ?= testdata/fleet.yaml
# Flags of `go test`, such as RACE=-race.
RACE ?=
# How often make fuzz tries each parser. Not for how long: at the end of a time `go
# test` sometimes fails with "context deadline exceeded", though nothing was found.
FUZZTIME ?= 500000x
GO_BUILD = CGO_ENABLED=0 go build -trimpath -ldflags="-s -w"
CDK = node_modules/.bin/cdk
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## the whole system on this machine, with a live table; ARGS="-config FILE" for your own servers
	go run ./infra/local $(ARGS)

.PHONY: demo
demo: ## the same, with a scripted outage; ends by itself in under a minute
	go run ./infra/local -demo

.PHONY: chaos
chaos: ## the same for five minutes, with AWS, functions and servers broken at random; then all must come to rest
	go run ./infra/local -chaos 5m -seed $$(date +%s)

.PHONY: test
test: ## all tests; RACE=-race for the race detector
	go test $(RACE) ./...

# A history takes a millisecond; a collector that runs less often makes it less.
SIMULATE = GOGC=400 go test -count=1 -v -timeout 24h -run TestHistories ./pkg/reconciler/simulation

.PHONY: simulate
simulate: ## 100,000 random histories of faults, and the real prober in 500; SEED=n begins elsewhere
	HISTORIES=100000 $(SIMULATE)
	REAL_HISTORIES=500 go test -count=1 -v -timeout 1h -run TestRealProber ./pkg/reconciler/simulation

.PHONY: soak
soak: ## five million histories, from a seed that is new every second
	SEED=$$(date +%s)00000 HISTORIES=5000000 $(SIMULATE)

.PHONY: mutate
mutate: ## break every rule of membership on purpose: a test must go red for each
	MUTATE=1 go test -count=1 -v -timeout 1h ./pkg/reconciler/mutation

.PHONY: compare
compare: ## the same outages for this design and three others; table and picture in docs/
	COMPARE=1 go test -count=1 -v -timeout 1h ./pkg/reconciler/comparison

.PHONY: fuzz
fuzz: ## every parser of what comes from the network, half a million inputs each; FUZZTIME=10s to change
	@for target in $$(go test -list '^Fuzz' ./pkg/probe | grep '^Fuzz'); do \
		echo "$$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./pkg/probe || exit 1; \
	done

.PHONY: page-test
page-test: $(CDK) ## what a person does with the status page, in headless Chromium; a minute
	node --test infra/page/words.test.mjs infra/page/page.test.mjs

.PHONY: screenshots
screenshots: $(CDK) ## the pictures of the status page in docs/, taken during the demo's outage
	node infra/page/screenshots.mjs

.PHONY: build
build: ## the functions for Lambda, in dist/; ARCH=amd64 to change; the commands for this machine, in dist/bin/
	GOOS=linux GOARCH=$(ARCH) $(GO_BUILD) -tags lambda.norpc -o dist/prober/bootstrap ./functions/prober
	GOOS=linux GOARCH=$(ARCH) $(GO_BUILD) -tags lambda.norpc -o dist/reconciler/bootstrap ./functions/reconciler
	$(GO_BUILD) -o dist/bin/radwitness-prober ./functions/prober
	$(GO_BUILD) -o dist/bin/radwitness ./functions/reconciler

.PHONY: lint
lint: ## gofmt, golangci-lint (go vet, staticcheck and more), and go.mod in order
	@unformatted=$$(gofmt -l functions infra pkg); if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted"; exit 1; fi
	go run $(GOLANGCI) run ./...
	go mod tidy -diff

.PHONY: bench
bench: ## benchmarks of probing, encoding and recording
	go test -run '^$$' -bench . -benchmem ./pkg/...

.PHONY: bench-peers
bench-peers: .venv/bench ## probes per CPU second: this prober, radclient and pyrad
	go run ./infra/bench/prober peers -python .venv/bin/python

.PHONY: bench-scale
bench-scale: ## rounds of 1,000 servers that answer or are silent; growth to 10,000, with its picture
	go run ./infra/bench/prober table
	go run ./infra/bench/prober round
	go run ./infra/bench/prober dead
	go run ./infra/bench/prober growth

.PHONY: bench-shards
bench-shards: ## 10,000 servers over the stack's schedules, every 10 s for 10 minutes; ARGS="-time 1m" for less
	go run ./infra/bench/prober shards $(ARGS)

.PHONY: bench-decision
bench-decision: ## the reconciler's own time and calls, with 1,000 servers in an emulator of AWS; a minute
	go run ./infra/bench/decision

.PHONY: bench-start
bench-start: ## start, size, memory and processor time of both functions, with 1,000 servers; two minutes
	go run ./infra/bench/coldstart

.PHONY: cost
cost: ## what a month costs; ARGS="-servers 40 -interval 10s" for your fleet
	go run ./infra cost $(ARGS)

.PHONY: synth
synth: $(CDK) ## the CloudFormation template, in cdk.out/; FLEET=FILE for your own fleet, also below
	$(CDK) synth --quiet --context fleet=$(FLEET)

.PHONY: diff
diff: $(CDK) ## what a deployment would change in the account
	$(CDK) diff --context fleet=$(FLEET)

.PHONY: deploy
deploy: $(CDK) ## put the system into the account, or bring it up to date
	$(CDK) deploy --context fleet=$(FLEET)

.PHONY: destroy
destroy: $(CDK) ## take it out again; targets and, by default, tables stay
	$(CDK) destroy --context fleet=$(FLEET)

.PHONY: cfn-lint
cfn-lint: synth .venv/installed ## cfn-lint on the template
	# W3005: the CDK names a dependency that is implied already.
	.venv/bin/cfn-lint --ignore-checks W3005 -- cdk.out/*.template.json

.PHONY: e2e
e2e: $(CDK) .venv/installed ## deploy into an emulator of AWS, against real FreeRADIUS servers; four minutes
	go vet -tags e2e ./infra/e2e
	go test -tags e2e -count=1 -timeout 15m -v ./infra/e2e

$(CDK): package-lock.json
	npm ci --no-fund
	@touch $@

.venv/installed: infra/requirements.txt
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check --requirement infra/requirements.txt
	@touch $@

.venv/bench: infra/bench/prober/requirements.txt
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check --requirement infra/bench/prober/requirements.txt
	@touch $@

.PHONY: clean
clean: ## remove what was built
	rm -rf dist cdk.out
