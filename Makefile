# What one can do here. Each target works on a fresh Debian or macOS machine with Go and make.

.DEFAULT_GOAL := help

BIN   := bin/caddy
TOOLS := .cache/tools

.PHONY: help run build test race chaos soak nginx lint fuzz published audio clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

run: build ## build Caddy with the module, see to ffmpeg, and serve the demo on http://localhost:8080
	@scripts/need ffmpeg
	@scripts/run

build: ## leave a Caddy with the module in bin/caddy
	go build -o $(BIN) ./cmd/caddy

test: build ## every test, with the real ffmpeg and a real browser
	@scripts/need ffmpeg chromium openssl xxd cc pgrep
	scripts/test ./...

race: ## the tests of what runs concurrently, under the race detector
	@scripts/need ffmpeg chromium openssl xxd cc pgrep
	scripts/test -race ./admission ./coalesce ./guard ./source ./store .

chaos: ## everything goes wrong at once, for a minute (CHAOS=10m, CHAOS_SEED=n)
	@scripts/need ffmpeg cc pgrep
	CHAOS=$${CHAOS:-60s} scripts/test -run 'TestChaos$$' .

soak: ## what takes minutes: an hour of WAV, a thousand listeners, five hundred reloads
	@scripts/need ffmpeg
	go test -tags soak -count=1 -timeout 30m -v -run 'Soak|Reloads' . | grep -v '^{'

nginx: ## that a caching nginx in front keeps no half variant (installs nginx)
	@scripts/need ffmpeg nginx
	scripts/test -tags nginx -run CacheInFront .

lint: $(TOOLS)/golangci-lint ## gofmt, vet and golangci-lint, for each platform
	scripts/lint $(TOOLS)/golangci-lint

fuzz: ## each fuzz target for a few seconds (FUZZTIME=10s)
	scripts/fuzz

published: $(TOOLS)/xcaddy $(TOOLS)/modzip ## build with xcaddy what users would get of HEAD, and try it
	@scripts/need ffmpeg curl
	scripts/published $(TOOLS)

audio: ## make the demo audio anew
	@scripts/need ffmpeg sox espeak-ng
	testdata/audio/make.sh

clean: ## remove what was built, and the demo's store
	rm -rf bin .cache

# xcaddy and the linter have a go.mod of their own, so that builds with the module do not inherit theirs.
$(TOOLS)/xcaddy: tools/go.mod tools/go.sum
	go build -C tools -o ../$@ github.com/caddyserver/xcaddy/cmd/xcaddy
$(TOOLS)/golangci-lint: tools/go.mod tools/go.sum
	go build -C tools -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/modzip: tools/go.mod tools/go.sum tools/modzip/main.go
	go build -C tools -o ../$@ ./modzip
