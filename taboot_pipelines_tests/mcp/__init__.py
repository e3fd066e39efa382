"""The server for assistants, asked by the SDK's own client."""
