// Command caddy is Caddy with the audio_proxy module in it, for development and the demo. What users run is
// better built with xcaddy.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-audio-proxy/caddy-audio-proxy"
)

func main() { caddycmd.Main() }
