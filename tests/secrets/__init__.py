# noqa: A005 - imported as tests.secrets only, where the library's own stays in reach
