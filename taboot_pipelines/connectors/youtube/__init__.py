"""Videos of YouTube (type ``youtube``): single ones, playlists and channels, or a folder of recorded files.

A video is one item by its id. With a key of the Data API (v3) it says what there is: playlists and channels
can be listed, and what did not change is told by conditional requests. Without one, videos that are named are
asked of the player alone. The transcript is the player's either way, since the Data API gives transcripts
only to a video's owner.

``connector`` enumerates videos; ``client`` has the Data API and the player; ``entry`` the entry.
"""
