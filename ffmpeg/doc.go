// Package ffmpeg says what ffmpeg is to be told and what its answers mean: argument lists, the report on
// stderr, probes, failure classes, and the peaks reducer. It is pure but for the files that start processes,
// and imports nothing of Caddy or HTTP.
package ffmpeg
