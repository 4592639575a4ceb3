"""The way to the API: is it there, does it still want us, and the token that proves who we are."""
