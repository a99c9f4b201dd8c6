//go:build !soak

package audioproxy

// reloads is how many the reload test makes; `make soak` makes more.
const reloads = 30
