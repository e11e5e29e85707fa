from polysemy.cli import main

main()
