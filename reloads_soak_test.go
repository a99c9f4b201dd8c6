//go:build soak

package audioproxy

// reloads is how many the reload test makes here.
const reloads = 500
